"""Distances from the limits as tables and as a figure."""

from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table

from benchmarks.suite.limits import TARGET_SHARE, LimitsResult


def format_limits(result: LimitsResult) -> list[RenderableType]:
    title = f"scan '{result.ours}': share of the copy bandwidth ({result.copy_bandwidth / 1e9:.1f} GB/s)"
    table = Table("tokens", "channels", "batch", "forward", "backward")
    for scan in result.scans:
        shares = [f"{result.bandwidth_share(scan, name):.1%}" for name in ("forward", "backward")]
        table.add_row(str(scan.tokens), str(scan.channels), str(scan.batch), *shares)
    products, seconds = result.products, result.forward_seconds
    slowest = Table("product", "calls", "share of all products")
    for name, calls, milliseconds in products.slowest:
        slowest.add_row(name, str(calls), f"{milliseconds / 1e3 / products.seconds:.1%}")
    line = (
        f"{result.model}, batch {result.batch}: its {products.calls} matrix products and convolutions alone take "
        f"{result.products_share:.2f} of the forward time (target ≥ {TARGET_SHARE:.2f}); "
        f"{products.flops / products.seconds / 1e9:.0f} GFLOP/s alone, "
        f"{products.flops / seconds / 1e9:.0f} GFLOP/s in the model."
    )
    return [title, table, line, "The slowest products:", slowest]


def plot_limits(result: LimitsResult) -> Figure:
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    labels = [f"{scan.tokens}×{scan.channels}" for scan in result.scans]
    for i, name in enumerate(("forward", "backward")):
        shares = [100 * result.bandwidth_share(scan, name) for scan in result.scans]
        bars = left.bar([x + 0.4 * i for x in range(len(labels))], shares, 0.4, label=name)
        left.bar_label(bars, fmt="%.0f")
    left.set_xticks([x + 0.2 for x in range(len(labels))], labels)
    left.axhline(100, color="gray", linestyle=":")
    left.set_xlabel("tokens × channels")
    left.set_ylabel("share of the copy bandwidth [%]")
    left.set_title(f"Scan '{result.ours}', each array counted once; copy: {result.copy_bandwidth / 1e9:.1f} GB/s")
    left.legend(frameon=False)
    milliseconds = [result.products.seconds * 1e3, result.forward_seconds * 1e3]
    bars = right.bar(["products and\nconvolutions alone", "whole forward"], milliseconds, color=["C2", "C7"])
    right.bar_label(bars, fmt="%.0f ms")
    right.axhline(TARGET_SHARE * milliseconds[1], color="gray", linestyle=":")
    right.margins(y=0.1)
    right.set_ylabel("time [ms]")
    right.set_title(f"{result.model}, batch {result.batch}: ratio {result.products_share:.2f}", fontsize=11)
    return figure
