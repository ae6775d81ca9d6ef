"""The command line: one file a subcommand, each parse → config → measure → print."""

from spectral_vmamba.cli.main import main

__all__ = ["main"]
