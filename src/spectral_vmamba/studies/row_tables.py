"""Markdown tables of rows, with the mean and the spread over seeds."""

from collections.abc import Sequence
from math import isnan
from statistics import mean, stdev


def percent(values: Sequence[float]) -> str:
    """The mean over seeds in percent, and the standard deviation where there are several; a dash for no number.

    >>> percent([0.5]), percent([0.5, 0.6])
    ('50.0', '55.0 ± 7.1')
    """
    if any(isnan(value) for value in values):
        return "–"
    text = f"{100 * mean(values):.1f}"
    return text if len(values) == 1 else f"{text} ± {100 * stdev(values):.1f}"


def difference(values: Sequence[float], reference: Sequence[float]) -> str:
    """The mean difference in percent over seeds, and its standard deviation where there are several.

    >>> difference([0.5], [0.6]), difference([0.5, 0.6], [0.45, 0.53])
    ('-10.0', '+6.0 ± 1.4')
    """
    differences = [100 * (value - other) for value, other in zip(values, reference, strict=True)]
    text = f"{mean(differences):+.1f}"
    return text if len(differences) == 1 else f"{text} ± {stdev(differences):.1f}"


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose other columns are numbers.

    >>> print(markdown(("network", "accuracy"), [("VMamba", "50.0")]))
    | network | accuracy |
    |---|---:|
    | VMamba | 50.0 |
    """
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join("|".join(["", *row, ""]) if row is lines[1] else f"| {' | '.join(row)} |" for row in lines)
