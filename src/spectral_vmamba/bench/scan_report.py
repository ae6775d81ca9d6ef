"""The scan's ratios as a table and as a image."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table

from spectral_vmamba.bench.scan import PASSES, ScanCell, ScanResult
from spectral_vmamba.bench.timing import as_times


def show_scan(result: ScanResult) -> list[RenderableType]:
    names = [name for name in _competitors(result) if name != result.ours]
    title = f"selective scan, {result.paths} paths: times '{result.ours}' is faster, {' / '.join(PASSES)}"
    table = Table("tokens", "channels", "batch", *names)
    for size in dict.fromkeys((cell.tokens, cell.channels, cell.batch) for cell in result.cells):
        pair = [_cell(result, size[:2], name) for name in PASSES]
        ratios = [" / ".join(as_times(cell.comparison.ratio(name, result.ours)) for cell in pair) for name in names]
        table.add_row(*map(str, size), *ratios)
    table.add_section()
    smallest = [" / ".join(as_times(result.smallest_ratio[p].get(name)) for p in PASSES) for name in names]
    table.add_row("smallest", "", "", *smallest)
    failures = {f"{name}: {why}" for cell in result.cells for name, why in cell.comparison.failures.items()}
    return [title, table, _headline(result), _growth(result), *sorted(failures)]


def _headline(result: ScanResult) -> str:
    pair = [_cell(result, result.headline, name) for name in PASSES]
    fastest = [cell.comparison.fastest(result.peers) for cell in pair]
    against = [as_times(cell.comparison.ratio(f or "", result.ours)) for cell, f in zip(pair, fastest, strict=True)]
    lines = [
        f"At {result.headline[0]} tokens, {result.headline[1]} channels, batch {pair[0].batch}: forward {against[0]}, "
        f"forward+backward {against[1]} the fastest peer ({fastest[0]}; {fastest[1]})."
    ]
    for name in _competitors(result):
        if name != result.ours and name not in result.peers and name in pair[0].comparison.timings:
            ratios = [as_times(cell.comparison.ratio(name, result.ours)) for cell in pair]
            lines.append(f"Against our own {name}: forward {ratios[0]}, forward+backward {ratios[1]}.")
    return "\n".join(lines)


def _growth(result: ScanResult) -> str:
    ranges = [f"{name} {min(line.values()):.2f} to {max(line.values()):.2f}" for name, line in result.growth.items()]
    return f"Our time grows with tokens to the power of: {', '.join(ranges)} (over the channels)."


def plot_scan(result: ScanResult) -> Figure:
    figure = Figure(figsize=(12, 8), layout="constrained")
    axes = figure.subplots(2, 2)
    for column, name in enumerate(PASSES):
        _draw_grid(axes[0, column], result, name)
        _draw_headline(axes[1, column], result, name)
    figure.suptitle(f"Selective scan along {result.paths} paths: '{result.ours}' against other ways to write it")
    return figure


def _draw_grid(axis: Axes, result: ScanResult, direction: str) -> None:
    tokens = sorted({cell.tokens for cell in result.cells})
    channels = sorted({cell.channels for cell in result.cells})
    ratios = np.full((len(tokens), len(channels)), np.nan)
    for i, length in enumerate(tokens):
        for j, width in enumerate(channels):
            comparison = _cell(result, (length, width), direction).comparison
            ratio = comparison.ratio(comparison.fastest(result.peers) or "", result.ours)
            ratios[i, j] = np.nan if ratio is None else ratio
            axis.text(j, i, as_times(ratio), ha="center", va="center", fontweight="bold")
    axis.imshow(ratios, cmap="RdYlGn", norm=LogNorm(1 / 16, 16), aspect="auto", alpha=0.8)
    axis.set_xticks(range(len(channels)), [str(width) for width in channels])
    axis.set_yticks(range(len(tokens)), [str(length) for length in tokens])
    axis.set_xlabel("channels")
    axis.set_ylabel("tokens")
    axis.set_title(f"{direction}: speed over the fastest peer")


def _draw_headline(axis: Axes, result: ScanResult, direction: str) -> None:
    cell = _cell(result, result.headline, direction)
    timings = sorted(cell.comparison.timings.items(), key=lambda item: -item[1].seconds)
    colors = ["tab:green" if n == result.ours else "tab:gray" if n in result.peers else "tab:blue" for n, _ in timings]
    bars = axis.barh([name for name, _ in timings], [timing.seconds * 1e3 for _, timing in timings], color=colors)
    axis.bar_label(bars, [as_times(cell.comparison.ratio(name, result.ours)) for name, _ in timings], padding=4)
    axis.margins(x=0.15)
    axis.set_xlabel("time [ms], best of several")
    axis.set_title(f"{direction}: {cell.tokens} tokens, {cell.channels} channels, batch {cell.batch}")


def _competitors(result: ScanResult) -> list[str]:
    """In order of appearance; those that only ran somewhere last."""
    return list(dict.fromkeys(name for cell in result.cells for name in cell.comparison.timings))


def _cell(result: ScanResult, size: tuple[int, ...], direction: str) -> ScanCell:
    return next(cell for cell in result.cells if (cell.tokens, cell.channels) == size and cell.direction == direction)
