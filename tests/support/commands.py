"""Data and options for tests of the command line."""

import shlex
from pathlib import Path

from spectral_vmamba.data.readers.digits import read_digits

# A network that trains in seconds.
SMALL_NETWORK = ["--model-options", '{"widths": [8, 16], "depths": [1, 1]}', "--tracker", "none", "--device", "cpu"]


def write_digit_folders(root: Path, count: int = 200) -> None:
    """Write digits as PNG files, one folder per class."""
    dataset = read_digits()
    for i in range(count):
        path = root / f"digit {dataset.label_name(i)}" / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        dataset.open(i).save(path)


def example_arguments(text: str) -> list[list[str]]:
    """Return the arguments of every `spectral-vmamba` command in a text, one command per line.

    Comments, pipes into the command, redirections of its output and shell prompts are removed.
    """
    commands = []
    for line in text.splitlines():
        words = shlex.split(line, comments=True) if "spectral-vmamba " in line else []
        if "spectral-vmamba" not in words:
            continue
        arguments = words[words.index("spectral-vmamba") + 1 :]
        end = next((i for i, word in enumerate(arguments) if word in (">", "|")), len(arguments))
        commands.append(arguments[:end])
    return commands
