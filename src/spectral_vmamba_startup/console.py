"""The console script. Importing the package takes seconds; Ctrl-C in this time must not end in a traceback."""

import os
import signal
import sys


def main() -> int:
    """Run `spectral-vmamba` with the arguments in `sys.argv` and return its exit code."""
    # Not an exception: some packages catch all exceptions while they are imported. There is nothing to clean up yet.
    previous = signal.signal(signal.SIGINT, lambda *_: _exit_interrupted())
    from spectral_vmamba.cli import main as run

    signal.signal(signal.SIGINT, previous)
    try:
        return run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _exit_interrupted() -> None:
    print("interrupted", file=sys.stderr, flush=True)
    os._exit(130)
