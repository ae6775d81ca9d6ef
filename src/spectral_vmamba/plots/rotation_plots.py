"""Plot accuracy and agreement over the rotation angle."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from spectral_vmamba.metrics.rotation import Sweep


def plot_sweeps(sweeps: Sequence[Sweep], title: str = "Effect of rotating the images") -> Figure:
    """Plot accuracy and agreement with the upright prediction, one line per sweep."""
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    accuracy, agreement = figure.subplots(1, 2, sharey=True)
    for sweep in sweeps:
        points = [*sweep.points, sweep.points[0]]
        angles = [*(point.angle for point in sweep.points), 360]
        label = _label(sweep, sweeps)
        accuracy.plot(angles, [100 * point.accuracy for point in points], marker="o", markersize=3.5, label=label)
        agreement.plot(angles, [100 * point.agreement for point in points], marker="o", markersize=3.5)
    for axis, label in ((accuracy, "accuracy [%]"), (agreement, "same prediction as upright [%]")):
        axis.set_xticks(range(0, 361, 45))
        axis.set_xlabel("rotation [degrees]")
        axis.set_ylabel(label)
        axis.set_ylim(0, 102)
        axis.tick_params(labelleft=True)
        axis.grid(alpha=0.3)
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    figure.suptitle(title, fontsize=12)
    return figure


def plot_polar(sweeps: Sequence[Sweep], title: str = "Accuracy by rotation angle [%]") -> Figure:
    """Plot accuracy around the circle, one line per sweep; the edge is 100 %."""
    figure = Figure(figsize=(6.4, 6.2), layout="constrained")
    axis = figure.add_subplot(projection="polar")
    for sweep in sweeps:
        points = [*sweep.points, sweep.points[0]]
        radians = np.deg2rad([point.angle for point in points])
        axis.plot(radians, [100 * point.accuracy for point in points], label=_label(sweep, sweeps))
        axis.fill(radians, [100 * point.accuracy for point in points], alpha=0.08)
    axis.set_ylim(0, 100)
    axis.set_rlabel_position(22.5)  # pyright: ignore[reportAttributeAccessIssue]
    axis.set_title(title, fontsize=12)
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    return figure


def _label(sweep: Sweep, sweeps: Sequence[Sweep]) -> str:
    """The name of the sweep, with its fill if the sweeps differ in it."""
    return sweep.name if len({each.fill for each in sweeps}) == 1 else f"{sweep.name}, {sweep.fill}"
