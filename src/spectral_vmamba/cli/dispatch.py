"""Parse the command line, run the subcommand, and report expected errors in one clear line."""

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

from spectral_vmamba._version import __version__
from spectral_vmamba.cli import (
    certify,
    demo,
    embed,
    evaluate,
    info,
    models,
    predict,
    reproduce,
    search,
    segment,
    split,
    train,
    traversal,
)
from spectral_vmamba.cli.console import print_error, print_line, print_warning
from spectral_vmamba.cli.options import CommandParser, add_commands
from spectral_vmamba.data.readers.folder_listing import SkippedFilesWarning

COMMANDS = {
    "train": train,
    "evaluate": evaluate,
    "certify": certify,
    "predict": predict,
    "embed": embed,
    "search": search,
    "segment": segment,
    "split": split,
    "models": models,
    "reproduce": reproduce,
    "traversal": traversal,
    "info": info,
    "demo": demo,
}
_DESCRIPTION = """Rotation-invariant vision with Spectral VMamba.

Examples:
  spectral-vmamba train --recipe lite --data photos/ --output runs/photos
  spectral-vmamba evaluate runs/photos --rotations 15
  spectral-vmamba predict runs/photos new/

`spectral-vmamba COMMAND --help` explains a command."""


def build_parser() -> CommandParser:
    """Return the parser of all subcommands."""
    parser = CommandParser(prog="spectral-vmamba", description=_DESCRIPTION, version=__version__)
    add_commands(parser, COMMANDS)
    return parser


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit code: 1 for expected errors, 130 or the command's own after Ctrl-C."""
    config = build_parser().parse_args(arguments)
    try:
        with _warnings_as_lines():
            return COMMANDS[config.subcommand].run(config[config.subcommand])
    except BrokenPipeError:  # the reader of our output closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError, ImportError, ArithmeticError) as error:
        print_error(error)
        return 1
    except KeyboardInterrupt as interruption:
        print_line(Console(stderr=True), str(interruption) or "interrupted")
        return getattr(interruption, "exit_code", 130)


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print each warning for users once, on one line, without the place in the code."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def print_or_show(message, category, *place, **options):  # pyright: ignore
            if issubclass(category, UserWarning):
                print_warning(" ".join(str(message).split()))
            else:
                show(message, category, *place, **options)

        warnings.showwarning = print_or_show
        warnings.simplefilter("once", SkippedFilesWarning)
        yield
