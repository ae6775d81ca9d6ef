"""Figures of the studies of trained networks: mean over seeds, with a band or bars of one standard deviation."""

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spectral_vmamba.plots.rotation_plots import lower_limit
from spectral_vmamba.studies.dynamics_study import DynamicsRow
from spectral_vmamba.studies.random_rfn_study import RandomRfnRow
from spectral_vmamba.studies.receptive_field_study import WHEN, ReceptiveFieldRow
from spectral_vmamba.studies.rotation_study import RotationRow
from spectral_vmamba.studies.segmentation_study import SegmentationRow
from spectral_vmamba.studies.training_jobs import by_network

# Okabe and Ito's colors, which color-blind readers can tell apart, each with a line style of its own.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_LINES = ("-", "--", "-.", ":")
QUARTER_TURNS = 3


class QuarterRow(Protocol):
    """A row with the accuracy on upright images, and the predictions that change at 90, 180 and 270°."""

    @property
    def seed(self) -> int: ...
    @property
    def images(self) -> int: ...
    @property
    def top1(self) -> float: ...
    @property
    def quarter_flips(self) -> int: ...


def plot_rotation_study(rows: Sequence[RotationRow]) -> Figure:
    """Accuracy above and agreement below, with one column per frame."""
    frames = list(dict.fromkeys(row.frame for row in rows))
    figure = Figure(figsize=(4.2 * len(frames) + 0.6, 7), layout="constrained")
    axes = figure.subplots(2, len(frames), squeeze=False, sharex=True, sharey="row")
    groups = by_network(rows)
    names = list(dict.fromkeys(network for network, _ in groups))
    for (network, frame), seeds in groups.items():
        column, style = frames.index(frame), _style(names.index(network))
        angles = [*seeds[0].angles, 360]
        for axis, values in zip(axes[:, column], ("accuracy", "agreement"), strict=True):
            curves = 100 * np.array([[*getattr(row, values), getattr(row, values)[0]] for row in seeds])
            _draw_band(axis, angles, curves, network, style)
    for column, frame in enumerate(frames):
        title = "without a frame, as the paper" if frame == "none" else f"frame {frame}"
        axes[0, column].set_title(title, fontsize=11)
        axes[1, column].set_xlabel("rotation [degrees]")
        axes[1, column].set_xticks(range(0, 361, 90))
    for row, label in enumerate(("accuracy [%]", "same prediction as upright [%]")):
        axes[row, 0].set_ylabel(label)
        values = [each.accuracy if row == 0 else each.agreement for each in rows]
        bottom, top = lower_limit(min(map(min, values))), 100 * max(map(max, values))
        axes[row, 0].set_ylim(bottom, min(top + 0.06 * (top - bottom), 100 + 0.02 * (100 - bottom)))
    shown = {label: handle for axis in axes[0] for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(shown.values(), shown, frameon=False, loc="outside lower center", ncols=2)
    figure.suptitle(f"Networks trained on upright images, tested at every angle ({_describe_seeds(rows)})", fontsize=12)
    return figure


def plot_accuracy_study(rows: Sequence[QuarterRow], title: str) -> Figure:
    """Accuracy on the left, changed predictions at quarter turns on the right; a dot for each seed."""
    groups = {network: seeds for (network, _), seeds in by_network(rows).items()}
    figure = Figure(figsize=(10.5, 0.45 * len(groups) + 1.8), layout="constrained")
    accuracy, flips = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    places = np.arange(len(groups))[::-1]
    shares = {network: [100 * row.top1 for row in seeds] for network, seeds in groups.items()}
    _draw_seeds(accuracy, places, list(shares.values()))
    lowest, highest = min(map(min, shares.values())), max(map(max, shares.values()))
    margin = max(2.0, 0.25 * (highest - lowest))
    accuracy.set_xlim(max(0.0, lowest - margin), highest + 1.5 * margin)
    accuracy.set_xlabel("top-1 accuracy on upright images [%]")
    accuracy.set_yticks(places, list(groups))
    changed = [[100 * row.quarter_flips / (QUARTER_TURNS * row.images) for row in seeds] for seeds in groups.values()]
    flips.barh(places, [mean(each) for each in changed], color=_COLORS[4], height=0.65)
    _draw_seeds(flips, places, changed)
    flips.set_xlim(0, max(1.0, 1.3 * max(map(max, changed))))
    flips.set_xlabel("changed predictions at quarter turns [%]")
    figure.suptitle(f"{title[0].upper()}{title[1:]} ({_describe_seeds(rows)})", fontsize=12)
    return figure


def plot_dynamics(rows: Sequence[DynamicsRow]) -> Figure:
    """The best validation accuracy so far against the epoch."""
    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    axis = figure.subplots()
    for number, ((network, _), seeds) in enumerate(by_network(rows).items()):
        curves = 100 * np.array([row.best for row in seeds])
        _draw_band(axis, range(1, curves.shape[1] + 1), curves, network, _style(number))
    axis.set_xlabel("epoch")
    axis.set_ylabel("best validation accuracy so far [%]")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    figure.suptitle(f"How fast networks learn, averaged weights ({_describe_seeds(rows)})", fontsize=12)
    return figure


def plot_random_rfn(rows: Sequence[RandomRfnRow]) -> Figure:
    """Bars of the accuracy over all angles: how RFN was trained, and which angles it has in use."""
    groups = by_network(rows)
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axis = figure.subplots()
    for number, used in enumerate(rows[0].used):
        values = [[100 * row.mean[number] for row in seeds] for seeds in groups.values()]
        places = np.arange(len(values)) + 0.36 * (number - 0.5)
        axis.bar(places, [mean(each) for each in values], width=0.34, color=_COLORS[number], label=f"in use: {used}")
        for place, each in zip(places, values, strict=True):
            axis.plot([place] * len(each), each, "o", color="black", markersize=3)
    axis.set_xticks(range(len(groups)), [network for network, _ in groups])
    axis.set_ylabel("mean accuracy over all angles [%]")
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    figure.suptitle(f"RFN with random angles ({_describe_seeds(rows)})", fontsize=12)
    return figure


def plot_receptive_fields(rows: Sequence[ReceptiveFieldRow]) -> Figure:
    """The maps of the first seed: a row for each network, before and after training."""
    groups = by_network(rows)
    figure = Figure(figsize=(7.2, 3.3 * len(groups) + 0.6), layout="constrained")
    axes = figure.subplots(len(groups), len(WHEN), squeeze=False)
    shown = None
    for line, ((network, _), seeds) in zip(axes, groups.items(), strict=True):
        for axis, when, field, areas in zip(line, WHEN, seeds[0].maps, seeds[0].areas, strict=True):
            shown = axis.imshow(np.array(field) / 1000, cmap="viridis", vmin=0, vmax=1)
            axis.set_title(f"{network}, {when}\n{100 * areas[1]:.1f} % of the area hold half", fontsize=9)
            axis.set_axis_off()
    if shown is not None:
        figure.colorbar(shown, ax=axes, shrink=0.5, label="gradient, relative to the largest")
    return figure


def plot_segmentation(rows: Sequence[SegmentationRow]) -> Figure:
    """Bars for one scale, several scales, and the worst angle; a dot per seed."""
    kinds = {
        "one scale": "single_scale",
        "six scales and flips": "multi_scale",
        "upright, in the disk": "upright_in_disk",
        "worst angle, in the disk": "worst",
    }
    groups = by_network(rows)
    figure = Figure(figsize=(8.5, 4.6), layout="constrained")
    axis = figure.subplots()
    width = 0.8 / len(groups)
    for number, ((network, _), seeds) in enumerate(groups.items()):
        values = [[100 * getattr(row, name) for row in seeds] for name in kinds.values()]
        places = np.arange(len(kinds)) + width * (number - (len(groups) - 1) / 2)
        axis.bar(places, [mean(each) for each in values], width=0.94 * width, color=_COLORS[number], label=network)
        for place, each in zip(places, values, strict=True):
            axis.plot([place] * len(each), each, "o", color="black", markersize=3)
    axis.set_xticks(range(len(kinds)), list(kinds))
    axis.set_ylabel("mean IoU [%]")
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    figure.suptitle(f"Masks by networks trained on upright images ({_describe_seeds(rows)})", fontsize=12)
    return figure


def _style(number: int) -> dict[str, Any]:
    return {"color": _COLORS[number % len(_COLORS)], "linestyle": _LINES[number % len(_LINES)], "linewidth": 2}


def _draw_seeds(axis: Axes, places: np.ndarray, values: Sequence[Sequence[float]]) -> None:
    """A dot for each seed, and the mean with its standard deviation where there are several."""
    for place, each in zip(places, values, strict=True):
        center, spread = mean(each), stdev(each) if len(each) > 1 else 0.0
        axis.plot(each, [place] * len(each), "o", color=_COLORS[0], markersize=4)
        if len(each) > 1:
            axis.errorbar(center, place, xerr=spread, marker="|", markersize=12, color="black", capsize=3)
        end = max(*each, center + spread)
        axis.annotate(f"{center:.1f}", (end, place), (9, 0), textcoords="offset points", va="center", fontsize=9)
    axis.grid(axis="x", alpha=0.3)
    axis.set_axisbelow(True)


def _draw_band(axis: Axes, x: Sequence[float], curves: np.ndarray, label: str, style: dict[str, Any]) -> None:
    middle = curves.mean(0)
    axis.plot(x, middle, label=label, **style)
    if len(curves) > 1:
        spread = curves.std(0, ddof=1)
        axis.fill_between(x, middle - spread, middle + spread, color=style["color"], alpha=0.15, linewidth=0)
    axis.grid(alpha=0.3)


def _describe_seeds(rows: Sequence[Any]) -> str:
    counts = sorted({len(seeds) for seeds in by_network(rows).values()})
    if counts == [1]:
        return "one seed"
    return f"mean and standard deviation of {' or '.join(map(str, counts))} seeds"
