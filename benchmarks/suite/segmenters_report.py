"""Time and memory of segmentation networks as tables and as a figure."""

from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table

from benchmarks.suite.segmenters import SegmentersResult


def format_segmenters(result: SegmentersResult) -> list[RenderableType]:
    lines: list[RenderableType] = ["one square photograph, frame quarter, random weights"]
    for network in result.networks:
        table = Table("pixels per side", "window", "tokens of a window", "seconds", "share of STS", "peak growth [MB]")
        for cell in (*network.cells, *network.whole):
            whole = cell.side <= cell.window
            table.add_row(
                str(cell.side),
                "whole image" if whole else str(cell.window),
                f"{cell.tokens:,}",
                f"{cell.seconds:.3f}",
                f"{cell.sts_share:.1%}",
                "–" if cell.bytes is None else f"{cell.bytes / 1e6:.0f}",
            )
        lines += [
            network.recipe,
            table,
            f"In windows, from {network.fitted_from} px on, time grows as pixels^{network.time_growth:.2f} and memory "
            f"as pixels^{network.memory_growth:.2f}.",
        ]
    return lines


def plot_segmenters(result: SegmentersResult) -> Figure:
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    time_axis, memory_axis = figure.subplots(1, 2)
    for color, network in enumerate(result.networks):
        sides = [cell.side for cell in network.cells]
        label = f"{network.recipe}, pixels^{network.time_growth:.2f}"
        time_axis.plot(sides, [cell.seconds for cell in network.cells], f"C{color}o-", label=label)
        sts = [cell.sts_seconds for cell in network.cells]
        time_axis.plot(sides, sts, f"C{color}.--", label=f"{network.recipe}, STS alone")
        known = [(cell.side, cell.bytes / 1e6) for cell in network.cells if cell.bytes]
        if known:
            label = f"{network.recipe}, pixels^{network.memory_growth:.2f}"
            memory_axis.plot(*zip(*known, strict=True), f"C{color}o-", label=label)
    for axis, title in ((time_axis, "seconds"), (memory_axis, "growth of resident memory [MB]")):
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        ticks = sorted({cell.side for network in result.networks for cell in network.cells})
        axis.set_xticks(ticks, [str(side) for side in ticks])
        axis.set_xlabel("pixels per side")
        axis.set_ylabel(title)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=9)
    figure.suptitle("Segmentation of one square image in windows, on a CPU")
    return figure
