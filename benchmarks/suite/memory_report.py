"""Peak memory as tables and as a figure."""

from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table

from benchmarks.suite.memory import MemoryResult
from benchmarks.suite.report_parts import OURS_COLOR, PEER_COLOR, draw_bars, format_ratio


def format_memory(result: MemoryResult) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for group in result.groups:
        table = Table("", "peak growth [MB]", "relative to ours")
        for name in group.bytes:
            table.add_row(name, f"{group.bytes[name] / 1e6:.0f}", format_ratio(group.ratio(name)))
        lines += [group.title, table, *(f"{name}: {why}" for name, why in group.failures.items())]
    return lines


def plot_memory(result: MemoryResult) -> Figure:
    figure = Figure(figsize=(9, 2.6 * len(result.groups) + 0.4), layout="constrained")
    for axis, group in zip(figure.subplots(len(result.groups), squeeze=False)[:, 0], result.groups, strict=True):
        names = list(group.bytes)
        colors = [OURS_COLOR if name == group.ours else PEER_COLOR for name in names]
        labels = [format_ratio(group.ratio(name)) for name in names]
        draw_bars(axis, names, [group.bytes[name] / 1e6 for name in names], colors, labels)
        axis.set_xlabel("growth of resident memory [MB]")
        axis.set_title(group.title, fontsize=10)
    figure.suptitle("Peak memory of one training step")
    return figure
