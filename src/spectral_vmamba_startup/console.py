"""The console script. Importing the package takes seconds; Ctrl-C in this time must not end in a traceback."""

import sys


def main() -> int:
    """Run `spectral-vmamba` with the arguments in `sys.argv` and return its exit code."""
    try:
        from spectral_vmamba.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
