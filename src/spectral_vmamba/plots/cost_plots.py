"""Figures of the studies of time, memory and FLOPs."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from spectral_vmamba.studies.cost_study import BACKBONE, CostRow
from spectral_vmamba.studies.flop_study import FlopRow

_PAPER_TOKENS = 196
_PARTS = (
    ("STS", "sts_seconds", "#D55E00", "-", 2.4),
    ("graph", "graph_seconds", "#E69F00", "--", 1.4),
    ("eigenvectors", "eigenvector_seconds", "#009E73", "-.", 1.4),
    ("orders", "order_seconds", "#CC79A7", ":", 1.8),
    (BACKBONE, "backbone_seconds", "#0072B2", "-", 2.4),
)


def plot_cost(rows: Sequence[CostRow]) -> Figure:
    """Time on the left, memory on the right, both logarithmic; a star marks the paper's 196 tokens."""
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    time, memory = figure.subplots(1, 2)
    rows = sorted(rows, key=lambda row: row.tokens)
    tokens = [row.tokens for row in rows]
    paper = next((row for row in rows if row.tokens == _PAPER_TOKENS), None)
    for label, name, color, line, width in _PARTS:
        values = [max(1e3 * getattr(row, name), 1e-3) for row in rows]
        time.plot(tokens, values, marker="o", markersize=4, color=color, linestyle=line, linewidth=width, label=label)
    for label, name, color in (("STS", "sts_bytes", "#D55E00"), (BACKBONE, "backbone_bytes", "#0072B2")):
        known = [(row.tokens, size / 1e6) for row in rows if (size := getattr(row, name))]
        if known:
            memory.plot(*zip(*known, strict=True), marker="o", markersize=4, color=color, linewidth=2.4, label=label)
    if paper is not None:
        for seconds in (paper.sts_seconds, paper.backbone_seconds):
            time.plot(_PAPER_TOKENS, 1e3 * seconds, "*", color="black", markersize=13, zorder=5)
    for axis, label in ((time, "milliseconds per image"), (memory, "peak growth of memory [MB]")):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(tokens, [f"{count:,}" for count in tokens], rotation=45, fontsize=8)
        axis.minorticks_off()
        axis.set_xlabel("tokens")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    figure.suptitle(f"STS and VMamba against the tokens, one image (★: the paper's {_PAPER_TOKENS})", fontsize=12)
    return figure


def plot_flops(rows: Sequence[FlopRow]) -> Figure:
    """A bar for each model: the authors' count, and what else runs."""
    figure = Figure(figsize=(8.5, 0.36 * len(rows) + 1.8), layout="constrained")
    axis = figure.subplots()
    places = list(range(len(rows)))[::-1]
    authors = [row.gflops_authors for row in rows]
    more = [max(row.gflops - row.gflops_authors, 0.0) for row in rows]
    axis.barh(places, authors, color="#0072B2", height=0.65, label="by the authors' rule")
    axis.barh(places, more, left=authors, color="#56B4E9", height=0.65, label="what else runs")
    axis.set_yticks(places, [row.model for row in rows], fontsize=9)
    axis.set_xlabel("GFLOPs (multiply-adds) of one image, without STS")
    axis.grid(axis="x", alpha=0.3)
    axis.set_axisbelow(True)
    axis.legend(frameon=False)
    return figure
