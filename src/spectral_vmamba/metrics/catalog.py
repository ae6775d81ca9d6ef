"""The table of all models in the paper's comparison: the registered families and timm's baselines."""

from dataclasses import dataclass

from spectral_vmamba.metrics.flops import ModelCost, measure_cost
from spectral_vmamba.models import FAMILIES, find_family
from spectral_vmamba.utils.progress import Progress, no_progress

TIMM_MODELS = {
    "DeiT": ("deit_small_patch16_224", "deit_base_patch16_224"),
    "Swin": ("swin_tiny_patch4_window7_224", "swin_small_patch4_window7_224", "swin_base_patch4_window7_224"),
    "XCiT": ("xcit_small_24_p16_224", "xcit_medium_24_p16_224"),
}
QUARTER_TURNS = "quarter turns"


@dataclass(frozen=True)
class CatalogRow:
    """One model. `invariance` is empty if every rotation changes the predictions."""

    family: str
    cost: ModelCost
    invariance: str


def measure_catalog(num_classes: int = 1000, progress: Progress = no_progress) -> list[CatalogRow]:
    """Count every model at its own image size. Takes about a second per model."""
    families = {family.title: family.names for family in FAMILIES} | TIMM_MODELS
    models = [(family, name) for family, names in families.items() for name in names]
    return [
        CatalogRow(family, measure_cost(name, num_classes=num_classes), declared_invariance(name))
        for family, name in progress(models, "counting", len(models))
    ]


def declared_invariance(name: str) -> str:
    """Name the rotations under which the model's answer stays the same. A test checks every registered model."""
    family = find_family(name)
    return QUARTER_TURNS if family and family.config(name).is_quarter_turn_invariant else ""


def format_markdown(rows: list[CatalogRow], num_classes: int) -> str:
    """Format the rows as the Markdown table in docs/models.md."""
    headings = ("model", "family", "trainable", "frozen", "px", "GFLOPs, authors", "GFLOPs, all", "invariant to")
    lines = ["| " + " | ".join(headings) + " |", "|---|---|---:|---:|---:|---:|---:|---|"]
    lines += ["| " + " | ".join(format_cells(row)) + " |" for row in rows]
    return "\n".join([f"At {num_classes} classes.", "", *lines, ""])


def format_cells(row: CatalogRow) -> list[str]:
    """Name, family, trainable and frozen parameters, image size, GFLOPs of the authors and of all, invariance."""
    cost = row.cost
    parameters = [f"{cost.trainable_parameters:,}", f"{cost.frozen_parameters:,}" if cost.frozen_parameters else ""]
    flops = [f"{cost.gflops_authors:.3f}", f"{cost.gflops:.3f}"]
    return [cost.name, row.family, *parameters, str(cost.input_size[0]), *flops, row.invariance]
