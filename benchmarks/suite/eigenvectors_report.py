"""Ratios and accuracies of the eigensolvers as tables and as a figure."""

from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table

from benchmarks.suite.eigenvectors import EigenvectorCell, EigenvectorResult
from benchmarks.suite.report_parts import format_ratio, list_competitors


def format_eigenvectors(result: EigenvectorResult) -> list[RenderableType]:
    reference = result.ours or "eigsh shift-invert"
    competitors = list_competitors(cell.comparison for cell in result.cells)
    names = [name for name in competitors if name != reference]
    speed_title = f"{result.pairs} eigenpairs of the graphs of photographs: time relative to '{reference}'"
    speeds = Table("tokens", "batch", *names)
    for cell in result.cells:
        ratios = [format_ratio(cell.comparison.ratio(name, reference)) + "*" * (name in cell.scaled) for name in names]
        speeds.add_row(str(cell.tokens), str(cell.batch), *ratios)
    accuracy_title = "largest ‖Lv − λv‖ of wanted vectors; of guard vectors; angle of the wanted to the dense solution"
    accuracy = Table("tokens", *competitors)
    for cell in result.cells:
        accuracy.add_row(str(cell.tokens), *(_format_accuracy(cell, name) for name in competitors))
    lines = [
        "* one image solved once, multiplied by the batch. No time includes building the graphs. Native converges the "
        "wanted vectors further than the guard vectors; the others have one tolerance for all, 1e-12.",
        "Time per image grows as a power of the tokens: "
        + ", ".join(f"{name} {power:.2f}" for name, power in result.growth.items())
        + ".",
    ]
    for cell in result.cells:
        if cell.graph_seconds is not None and result.ours in cell.comparison.timings:
            share = cell.graph_seconds / cell.comparison.timings[result.ours].seconds
            lines.append(f"{cell.tokens} tokens: building the graphs takes {share:.2f} times as long as solving them.")
        lines += [f"{cell.tokens} tokens, {name}: {why}" for name, why in cell.comparison.failures.items()]
    return [speed_title, speeds, accuracy_title, accuracy, "\n".join(lines)]


def plot_eigenvectors(result: EigenvectorResult) -> Figure:
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    axis = figure.subplots()
    for name in list_competitors(cell.comparison for cell in result.cells):
        cells = [cell for cell in result.cells if name in cell.comparison.timings]
        per_image = [cell.comparison.timings[name].seconds / cell.batch * 1e3 for cell in cells]
        width = 3.0 if name == result.ours else 1.5
        label = f"{name}, tokens^{result.growth[name]:.1f}"
        axis.plot([cell.tokens for cell in cells], per_image, marker="o", linewidth=width, label=label)
    cells = [cell for cell in result.cells if cell.graph_seconds]
    if cells:
        per_image = [(cell.graph_seconds or 0) / cell.batch * 1e3 for cell in cells]
        label = f"building the graphs, tokens^{result.growth['graphs']:.1f}"
        axis.plot([cell.tokens for cell in cells], per_image, "k--", marker=".", label=label)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks([cell.tokens for cell in result.cells], [str(cell.tokens) for cell in result.cells])
    axis.set_xlabel("tokens per image")
    axis.set_ylabel("time per image [ms], best of several")
    axis.grid(alpha=0.3)
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    axis.set_title(f"{result.pairs} eigenpairs of the patch graphs of photographs")
    return figure


def _format_accuracy(cell: EigenvectorCell, name: str) -> str:
    if name not in cell.accuracy:
        return "–"
    accuracy = cell.accuracy[name]
    angle = "–" if accuracy.angle is None else f"{accuracy.angle:.0e}"
    return f"{accuracy.residual:.0e}; {accuracy.guard_residual:.0e}; {angle}"
