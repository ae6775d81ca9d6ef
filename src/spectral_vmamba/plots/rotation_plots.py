"""Plot accuracy and agreement over the rotation angle."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectral_vmamba.metrics.rotation import AngleScores, Sweep
from spectral_vmamba.plots.typefaces import find_typeface

# Later lines are thinner and dashed, so that a line below another one stays visible.
_STYLES = (
    {"linestyle": "-", "marker": "o", "linewidth": 2.4, "markersize": 4.5},
    {"linestyle": (0, (4, 2)), "marker": "s", "linewidth": 1.6, "markersize": 3.5},
    {"linestyle": (0, (1, 1.5)), "marker": "^", "linewidth": 1.6, "markersize": 4},
    {"linestyle": (0, (6, 2, 1, 2)), "marker": "x", "linewidth": 1.2, "markersize": 5},
)


def plot_sweeps(sweeps: Sequence[Sweep], title: str = "Effect of rotating the images") -> Figure:
    """Plot accuracy and agreement with the upright prediction. Sweeps with equal values share a line ("A = B")."""
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    accuracy, agreement = figure.subplots(1, 2, sharey=True)
    lowest = min((min(point.accuracy, point.agreement) for sweep in sweeps for point in sweep.points), default=0.0)
    for i, (sweep, label) in enumerate(merge_equal(sweeps)):
        points = [*sweep.points, sweep.points[0]]
        angles = [*(point.angle for point in sweep.points), 360]
        style = _STYLES[i % len(_STYLES)]
        accuracy.plot(angles, [100 * point.accuracy for point in points], label=label, **style)
        agreement.plot(angles, [100 * point.agreement for point in points], **style)
    for axis, label in ((accuracy, "accuracy [%]"), (agreement, "same prediction as upright [%]")):
        axis.set_xticks(range(0, 361, 45))
        axis.set_xlabel("rotation [degrees]")
        axis.set_ylabel(label)
        bottom = lower_limit(lowest)
        axis.set_ylim(bottom, 100 + 0.03 * (100 - bottom))
        axis.tick_params(labelleft=True)
        axis.grid(alpha=0.3)
    _add_legend(figure)
    figure.suptitle(title, fontsize=12, parse_math=False)
    return figure


def plot_polar(sweeps: Sequence[Sweep], title: str = "Accuracy by rotation angle [%]") -> Figure:
    """Plot accuracy around the circle. The edge is 100 %; the title states the value at the center."""
    figure = Figure(figsize=(6.4, 6.2), layout="constrained")
    axis: Axes = figure.add_subplot(projection="polar")
    bottom = lower_limit(min((point.accuracy for sweep in sweeps for point in sweep.points), default=0.0))
    for i, (sweep, label) in enumerate(merge_equal(sweeps)):
        measured = [*(point.angle for point in sweep.points), 360.0]
        values = [100 * point.accuracy for point in [*sweep.points, sweep.points[0]]]
        angles = np.union1d(measured, np.arange(0, 360, 3))  # equal values make an arc, not a chord
        radii = np.interp(angles, measured, values)
        axis.plot(np.deg2rad(angles), radii, label=label, **{**_STYLES[i % len(_STYLES)], "marker": ""})
        axis.fill(np.deg2rad(angles), radii, alpha=0.08)
    axis.set_ylim(bottom, 100)
    axis.set_rlabel_position(22.5)  # pyright: ignore[reportAttributeAccessIssue]
    axis.set_title(f"{title}, center: {bottom:g} %", fontsize=12, parse_math=False)
    _add_legend(figure)
    return figure


def lower_limit(lowest: float) -> float:
    """The lower end, in percent, of an axis up to 100 that shows values from `lowest` (0 to 1) on.

    >>> [lower_limit(lowest) for lowest in (1.0, 0.984, 0.9, 0.55, 0.1)]
    [98.0, 98.0, 88.0, 45.0, 0.0]
    """
    span = max(100 * (1 - lowest), 1.5)
    step = next(step for step in (0.5, 1.0, 2.0, 5.0) if span <= 8 * step or step == 5.0)
    return max(step * float(np.floor((100 - 1.15 * span) / step)), 0.0)


def merge_equal(sweeps: Sequence[Sweep]) -> list[tuple[Sweep, str]]:
    """One sweep for each set of equal ones, and its label: the names that share the values."""
    groups: dict[tuple, list[Sweep]] = {}
    for sweep in sweeps:
        groups.setdefault(tuple(map(_values, sweep.points)), []).append(sweep)
    with_fill = len({sweep.fill for sweep in sweeps}) > 1
    return [(group[0], _join_labels(group, with_fill)) for group in groups.values()]


def _values(point: AngleScores) -> tuple[float, float, float]:
    return point.angle, point.accuracy, point.agreement


def _join_labels(group: Sequence[Sweep], with_fill: bool) -> str:
    names = list(dict.fromkeys(sweep.name for sweep in group))
    if not with_fill:
        return " = ".join(names)
    fills = {name: " = ".join(sweep.fill for sweep in group if sweep.name == name) for name in names}
    return " = ".join(f"{name}, {fills[name]}" for name in names)


def _add_legend(figure: Figure) -> None:
    texts = figure.legend(frameon=False, loc="outside lower center", ncols=1).get_texts()
    typeface = find_typeface(text.get_text() for text in texts)
    for text in texts:
        text.set(parse_math=False, fontfamily=typeface.families, text="".join(typeface.drawable(text.get_text())))
