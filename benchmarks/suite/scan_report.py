"""Ratios of the scan as tables and as a figure."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table

from benchmarks.suite.report_parts import OURS_COLOR, PEER_COLOR, draw_bars, format_ratio, list_competitors
from benchmarks.suite.scan import PASSES, ScanCell, ScanResult


def format_scan(result: ScanResult) -> list[RenderableType]:
    names = _list_others(result)
    title = f"selective scan, {result.paths} paths: time relative to '{result.ours}', {' / '.join(PASSES)}"
    table = Table("tokens", "channels", "batch", *names)
    for size in dict.fromkeys((cell.tokens, cell.channels, cell.batch) for cell in result.cells):
        pair = [_find_cell(result, size[:2], direction) for direction in PASSES]
        table.add_row(*map(str, size), *(_format_pair(pair, name, result.ours) for name in names))
    table.add_section()
    smallest = [" / ".join(format_ratio(result.smallest_ratio[p].get(name)) for p in PASSES) for name in names]
    table.add_row("smallest", "", "", *smallest)
    failures = {f"{name}: {why}" for cell in result.cells for name, why in cell.comparison.failures.items()}
    return [title, table, _format_headline(result), _format_growth(result), *sorted(failures)]


def _format_headline(result: ScanResult) -> str:
    pair = [_find_cell(result, result.headline, direction) for direction in PASSES]
    fastest = [cell.comparison.fastest(result.peers) or "" for cell in pair]
    ratios = [format_ratio(cell.comparison.ratio(name, result.ours)) for cell, name in zip(pair, fastest, strict=True)]
    lines = [
        f"At {result.headline[0]} tokens, {result.headline[1]} channels, batch {pair[0].batch}, the fastest peer takes "
        f"{ratios[0]} our time forward ({fastest[0]}) and {ratios[1]} forward+backward ({fastest[1]})."
    ]
    for name in _list_others(result):
        if name not in result.peers and name in pair[0].comparison.timings:
            lines.append(f"Our own {name} takes {_format_pair(pair, name, result.ours)}.")
    return "\n".join(lines)


def _format_pair(pair: list[ScanCell], name: str, ours: str) -> str:
    return " / ".join(format_ratio(cell.comparison.ratio(name, ours)) for cell in pair)


def _format_growth(result: ScanResult) -> str:
    ranges = [f"{name} {min(line.values()):.2f} to {max(line.values()):.2f}" for name, line in result.growth.items()]
    return f"Our time grows as a power of the tokens: {', '.join(ranges)} (range over the channels)."


def plot_scan(result: ScanResult) -> Figure:
    figure = Figure(figsize=(12, 8), layout="constrained")
    axes = figure.subplots(2, 2)
    for column, direction in enumerate(PASSES):
        _draw_grid(axes[0, column], result, direction)
        _draw_headline(axes[1, column], result, direction)
    figure.suptitle(f"Selective scan along {result.paths} paths: '{result.ours}' against other implementations")
    return figure


def _draw_grid(axis: Axes, result: ScanResult, direction: str) -> None:
    tokens = sorted({cell.tokens for cell in result.cells})
    channels = sorted({cell.channels for cell in result.cells})
    ratios = np.full((len(tokens), len(channels)), np.nan)
    for i, length in enumerate(tokens):
        for j, width in enumerate(channels):
            comparison = _find_cell(result, (length, width), direction).comparison
            ratio = comparison.ratio(comparison.fastest(result.peers) or "", result.ours)
            ratios[i, j] = np.nan if ratio is None else ratio
            axis.text(j, i, format_ratio(ratio), ha="center", va="center", fontweight="bold")
    axis.imshow(ratios, cmap="RdYlGn", norm=LogNorm(1 / 16, 16), aspect="auto", alpha=0.8)
    axis.set_xticks(range(len(channels)), [str(width) for width in channels])
    axis.set_yticks(range(len(tokens)), [str(length) for length in tokens])
    axis.set_xlabel("channels")
    axis.set_ylabel("tokens")
    axis.set_title(f"{direction}: speedup over the fastest peer")


def _draw_headline(axis: Axes, result: ScanResult, direction: str) -> None:
    cell = _find_cell(result, result.headline, direction)
    timings = cell.comparison.timings
    names = sorted(timings, key=lambda name: timings[name].seconds)
    colors = [OURS_COLOR if n == result.ours else PEER_COLOR if n in result.peers else "tab:blue" for n in names]
    labels = [format_ratio(cell.comparison.ratio(name, result.ours)) for name in names]
    draw_bars(axis, names, [timings[name].seconds * 1e3 for name in names], colors, labels)
    axis.set_xlabel("time [ms], best of several")
    axis.set_title(f"{direction}: {cell.tokens} tokens, {cell.channels} channels, batch {cell.batch}")


def _list_others(result: ScanResult) -> list[str]:
    return [name for name in list_competitors(cell.comparison for cell in result.cells) if name != result.ours]


def _find_cell(result: ScanResult, size: tuple[int, ...], direction: str) -> ScanCell:
    return next(cell for cell in result.cells if (cell.tokens, cell.channels) == size and cell.direction == direction)
