"""The eigensolvers' ratios and accuracies as tables and as a image."""

from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table

from spectral_vmamba.bench.eigenvectors import EigenvectorCell, EigenvectorResult
from spectral_vmamba.bench.timing import as_times


def show_eigenvectors(result: EigenvectorResult) -> list[RenderableType]:
    yardstick = result.ours or "eigsh shift-invert"
    names = [name for name in _competitors(result) if name != yardstick]
    speed_title = f"{result.pairs} eigenpairs of the graphs of photographs: times '{yardstick}' is faster"
    speeds = Table("tokens", "batch", *names)
    for cell in result.cells:
        ratios = [as_times(cell.comparison.ratio(name, yardstick)) + "*" * (name in cell.scaled) for name in names]
        speeds.add_row(str(cell.tokens), str(cell.batch), *ratios)
    accuracy_title = "largest ‖Lv − λv‖ of the wanted; of the guards; angle between the wanted and the dense solver's"
    accuracy = Table("tokens", *_competitors(result))
    for cell in result.cells:
        accuracy.add_row(str(cell.tokens), *(_accuracy(cell, name) for name in _competitors(result)))
    lines = [
        "* one image, once, times the batch. Graphs are built before and not part of any time. Native converges the "
        "wanted vectors further than the guards; the others have one tolerance, 1e-12, for all.",
        "Time per image grows with tokens to the power of: "
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
    figure = Figure(figsize=(8.5, 5.6), layout="constrained")
    axis = figure.subplots()
    for name in _competitors(result):
        cells = [cell for cell in result.cells if name in cell.comparison.timings]
        per_image = [cell.comparison.timings[name].seconds / cell.batch * 1e3 for cell in cells]
        wide = 3.0 if name == result.ours else 1.5
        label = f"{name}, tokens^{result.growth[name]:.1f}"
        axis.plot([cell.tokens for cell in cells], per_image, marker="o", linewidth=wide, label=label)
    cells = [cell for cell in result.cells if cell.graph_seconds]
    if cells:
        per_image = [(cell.graph_seconds or 0) / cell.batch * 1e3 for cell in cells]
        label = f"building the graphs, tokens^{result.growth['graphs']:.1f}"
        axis.plot([cell.tokens for cell in cells], per_image, "k--", marker=".", label=label)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks([cell.tokens for cell in result.cells], [str(cell.tokens) for cell in result.cells])
    axis.set_xlabel("tokens of an image")
    axis.set_ylabel("time per image [ms], best of several")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    axis.set_title(f"{result.pairs} eigenpairs of the patch graphs of photographs")
    return figure


def _accuracy(cell: EigenvectorCell, name: str) -> str:
    if name not in cell.accuracy:
        return "–"
    found = cell.accuracy[name]
    angle = "–" if found.angle is None else f"{found.angle:.0e}"
    return f"{found.residual:.0e}; {found.guard_residual:.0e}; {angle}"


def _competitors(result: EigenvectorResult) -> list[str]:
    return list(dict.fromkeys(name for cell in result.cells for name in cell.comparison.timings))
