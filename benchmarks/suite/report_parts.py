"""Formatting that several reports share."""

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes

from benchmarks.suite.timing import Comparison

OURS_COLOR, PEER_COLOR = "tab:green", "tab:gray"


def format_ratio(ratio: float | None) -> str:
    """Return "3.14×", "12.3×", or a dash for None."""
    if ratio is None:
        return "–"
    return f"{ratio:.1f}×" if ratio >= 10 else f"{ratio:.2f}×"


def list_competitors(comparisons: Iterable[Comparison]) -> list[str]:
    """Return all names that have a time, in order of appearance."""
    return list(dict.fromkeys(name for comparison in comparisons for name in comparison.timings))


def draw_bars(axis: Axes, names: Sequence[str], values: Sequence[float], colors: Sequence[str], labels: Sequence[str]):
    """Draw one horizontal bar per name, the first at the top, with a label at its end."""
    bars = axis.barh(names, values, color=colors)
    axis.bar_label(bars, labels, padding=4)
    axis.invert_yaxis()
    axis.margins(x=0.15)
