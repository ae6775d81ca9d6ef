"""The model's shares and throughput as tables and as a image."""

from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table

from spectral_vmamba.bench.model import PARTS, ModelResult, Shares
from spectral_vmamba.bench.timing import as_times


def show_model(result: ModelResult) -> list[RenderableType]:
    table = Table("", *PARTS, "STS without profiler")
    for shares in result.shares:
        table.add_row(_title(shares), *(f"{shares.share(part):.1%}" for part in PARTS), f"{shares.sts_share:.1%}")
    lines = []
    for name, comparison in result.throughput.items():
        ratio = as_times(comparison.ratio(result.peer, result.ours))
        lines.append(f"{result.ours}, {name}, batch {result.batch}: {ratio} the images per second of {result.peer}.")
        lines += [f"{competitor}: {why}" for competitor, why in comparison.failures.items()]
    return ["shares of a forward, eval, photographs", table, "\n".join(lines)]


def plot_model(result: ModelResult) -> Figure:
    figure = Figure(figsize=(11, 6), layout="constrained")
    above, below = figure.subplots(2, height_ratios=[len(result.shares) + 1, 4])
    for i, shares in enumerate(result.shares):
        left = 0.0
        for color, part in enumerate(PARTS):
            share = 100 * shares.share(part)
            above.barh(i, share, left=left, color=f"C{color}", label=part if i == 0 else None)
            if share > 4:
                above.text(left + share / 2, i, f"{share:.0f}", ha="center", va="center", color="white")
            left += share
    above.set_yticks(range(len(result.shares)), [_title(shares) for shares in result.shares])
    above.invert_yaxis()
    above.set_xlim(0, 100)
    above.set_xlabel("share of a forward [%]")
    above.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, fontsize=9)
    bars = [
        (f"{name}\n{direction}", result.batch / timing.seconds, name == result.ours)
        for direction, comparison in result.throughput.items()
        for name, timing in comparison.timings.items()
    ]
    colors = ["tab:green" if ours else "tab:gray" for _, _, ours in bars]
    drawn = below.barh([label for label, _, _ in bars], [speed for _, speed, _ in bars], color=colors)
    below.bar_label(drawn, fmt="%.2f", padding=4)
    below.invert_yaxis()
    below.margins(x=0.1)
    below.set_xlabel(f"images per second, batch {result.batch}")
    figure.suptitle("Where the time of the whole model goes, and how fast it is")
    return figure


def _title(shares: Shares) -> str:
    return f"{shares.model.removeprefix('spectral_vmamba_')}, batch {shares.batch}, {shares.pixels} px"
