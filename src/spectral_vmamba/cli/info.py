"""Show versions, the machine and the backends, with the reason for each missing backend."""

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import print_line
from spectral_vmamba.cli.options import CommandParser
from spectral_vmamba.metrics.environment import measure_environment

_DESCRIPTION = f"""{__doc__}

Include this output in bug reports. In Python: `spectral_vmamba.info()`.

Example:
  spectral-vmamba info"""


def parser() -> CommandParser:
    return CommandParser(description=_DESCRIPTION)


def run(config: Namespace) -> int:
    console = Console()
    print_line(console, str(measure_environment()))
    print_line(console, "\n`spectral-vmamba models` lists the models.")
    return 0
