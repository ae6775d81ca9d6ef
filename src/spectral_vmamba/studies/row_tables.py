"""Markdown tables of rows, with the mean and the spread over seeds."""

from collections.abc import Sequence
from statistics import mean, stdev


def percent(values: Sequence[float]) -> str:
    """The mean over seeds in percent, and the standard deviation where there are several.

    >>> percent([0.5]), percent([0.5, 0.6])
    ('50.0', '55.0 ± 7.1')
    """
    text = f"{100 * mean(values):.1f}"
    return text if len(values) == 1 else f"{text} ± {100 * stdev(values):.1f}"


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose other columns are numbers.

    >>> print(markdown(("network", "accuracy"), [("VMamba", "50.0")]))
    | network | accuracy |
    |---|---:|
    | VMamba | 50.0 |
    """
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join("|".join(["", *row, ""]) if row is lines[1] else f"| {' | '.join(row)} |" for row in lines)
