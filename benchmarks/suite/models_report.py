"""Speed of all models as tables and as a figure."""

from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table

from benchmarks.suite.models import ModelsResult
from benchmarks.suite.report_parts import format_ratio
from benchmarks.suite.scan import PASSES


def format_models(result: ModelsResult) -> list[RenderableType]:
    table = Table("model", "family", *PASSES)
    for name, (family, ratios) in _group_by_model(result).items():
        table.add_row(name, family, *(format_ratio(ratios.get(direction)) for direction in PASSES))
    lines = [
        f"{result.fused_model}, forward, batch {batch}: {format_ratio(comparison.ratio('textbook', 'fused'))} the "
        "images per second of its textbook form, a loop over the tokens (backend 'reference')."
        for batch, comparison in result.fused.items()
    ]
    failures = [
        f"{speed.name}, {speed.direction}: {why}"
        for speed in result.speeds
        for why in speed.comparison.failures.values()
    ]
    title = f"images per second relative to {result.peer}, {result.pixels} px, batch {result.batch}"
    return [title, table, "\n".join([*lines, *failures])]


def plot_models(result: ModelsResult) -> Figure:
    models = _group_by_model(result)
    figure = Figure(figsize=(9, 1.5 + 0.4 * len(models)), layout="constrained")
    axis = figure.subplots()
    for i, direction in enumerate(PASSES):
        ratios = [ratios.get(direction) or 0.0 for _, ratios in models.values()]
        bars = axis.barh([y + 0.4 * i for y in range(len(models))], ratios, 0.4, label=direction)
        axis.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axis.set_yticks([y + 0.2 for y in range(len(models))], list(models))
    axis.axvline(1, color="tab:gray", linewidth=1)
    axis.invert_yaxis()
    axis.margins(x=0.08)
    axis.set_xlabel(f"images per second relative to {result.peer} (batch {result.batch}, {result.pixels} px)")
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(PASSES), frameon=False)
    return figure


def _group_by_model(result: ModelsResult) -> dict[str, tuple[str, dict[str, float | None]]]:
    """Return model → (family, pass → ratio)."""
    models: dict[str, tuple[str, dict[str, float | None]]] = {}
    for speed in result.speeds:
        _, ratios = models.setdefault(speed.name, (speed.family, {}))
        ratios[speed.direction] = speed.comparison.ratio(result.peer, speed.name)
    return models
