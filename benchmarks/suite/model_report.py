"""Shares and throughput of the model as tables and as a figure."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table

from benchmarks.suite.forward_profile import PARTS, Shares
from benchmarks.suite.model import ModelResult
from benchmarks.suite.report_parts import OURS_COLOR, PEER_COLOR, draw_bars, format_ratio


def format_model(result: ModelResult) -> list[RenderableType]:
    table = Table("", *PARTS, "STS without profiler")
    for shares in result.shares:
        table.add_row(_title(shares), *(f"{shares.share(part):.1%}" for part in PARTS), f"{shares.sts_share:.1%}")
    lines = []
    for direction, comparison in result.throughput.items():
        ratio = format_ratio(comparison.ratio(result.peer, result.ours))
        lines.append(
            f"{result.ours}, {direction}, batch {result.batch}: {ratio} the images per second of {result.peer}."
        )
        lines += [f"{name}: {why}" for name, why in comparison.failures.items()]
    return ["shares of a forward in eval mode, on photographs", table, "\n".join(lines)]


def plot_model(result: ModelResult) -> Figure:
    figure = Figure(figsize=(11, 6), layout="constrained")
    above, below = figure.subplots(2, height_ratios=[len(result.shares) + 1, 4])
    _draw_shares(above, result.shares)
    bars = [
        (f"{name}\n{direction}", result.batch / timing.seconds, OURS_COLOR if name == result.ours else PEER_COLOR)
        for direction, comparison in result.throughput.items()
        for name, timing in comparison.timings.items()
    ]
    names, speeds, colors = zip(*bars, strict=True)
    draw_bars(below, names, speeds, colors, [f"{speed:.2f}" for speed in speeds])
    below.set_xlabel(f"images per second, batch {result.batch}")
    figure.suptitle("Where the time of the whole model goes, and its speed")
    return figure


def _draw_shares(axis: Axes, rows: list[Shares]) -> None:
    for i, shares in enumerate(rows):
        left = 0.0
        for color, part in enumerate(PARTS):
            share = 100 * shares.share(part)
            axis.barh(i, share, left=left, color=f"C{color}", label=part if i == 0 else None)
            if share > 4:
                axis.text(left + share / 2, i, f"{share:.0f}", ha="center", va="center", color="white")
            left += share
    axis.set_yticks(range(len(rows)), [_title(shares) for shares in rows])
    axis.invert_yaxis()
    axis.set_xlim(0, 100)
    axis.set_xlabel("share of a forward [%]")
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, fontsize=9)


def _title(shares: Shares) -> str:
    return f"{shares.model.removeprefix('spectral_vmamba_')}, batch {shares.batch}, {shares.pixels} px"
