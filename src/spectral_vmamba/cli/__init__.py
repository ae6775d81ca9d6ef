"""The command line: one file per subcommand, each parse → settings → Python API → print. Requires the extra `cli`."""

import sys
from collections.abc import Sequence

from spectral_vmamba.utils.extras import require

_PACKAGES = ("jsonargparse", "docstring_parser", "yaml", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `spectral-vmamba` with the given arguments (default: `sys.argv`) and return its exit code."""
    try:
        for package in _PACKAGES:
            require(package, "cli")
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    from spectral_vmamba.cli.dispatch import run_command

    return run_command(arguments)


__all__ = ["main"]
