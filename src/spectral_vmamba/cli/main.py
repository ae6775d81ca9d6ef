"""`spectral-vmamba`: dispatches to the subcommands and turns expected errors into one clear line."""

import os
import sys
from collections.abc import Sequence

from jsonargparse import ArgumentParser
from rich.console import Console

from spectral_vmamba._version import __version__
from spectral_vmamba.cli import (
    bench,
    certify,
    demo,
    embed,
    evaluate,
    info,
    models,
    predict,
    search,
    split,
    train,
    traversal,
)
from spectral_vmamba.cli.options import Teaching

_COMMANDS = {
    "train": train,
    "evaluate": evaluate,
    "certify": certify,
    "predict": predict,
    "embed": embed,
    "search": search,
    "split": split,
    "models": models,
    "traversal": traversal,
    "info": info,
    "demo": demo,
    "bench": bench,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = ArgumentParser(
        prog="spectral-vmamba",
        description="Rotation-invariant vision with Spectral VMamba.",
        version=__version__,
        formatter_class=Teaching,
        allow_abbrev=False,
    )
    subcommands = parser.add_subcommands(required=True, metavar="COMMAND")
    for name, module in _COMMANDS.items():
        subcommands.add_subcommand(name, module.parser(), help=(module.__doc__ or name).splitlines()[0])
    config = parser.parse_args(arguments)
    errors = Console(stderr=True)
    try:
        return _COMMANDS[config.subcommand].run(config[config.subcommand])
    except BrokenPipeError:  # whoever read the output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (ValueError, OSError, ImportError, ArithmeticError) as error:
        errors.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt as interruption:
        errors.print(str(interruption) or "stopped", markup=False, highlight=False, soft_wrap=True)
        return getattr(interruption, "exit_code", 130)


if __name__ == "__main__":
    sys.exit(main())
