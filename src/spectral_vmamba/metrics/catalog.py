"""One table of all models of the paper's comparison: ours, the other state-space families, and timm's."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from spectral_vmamba.metrics.flops import ModelCost, measure_cost
from spectral_vmamba.models.variants import FAMILIES

TIMM_MODELS = {
    "DeiT": ("deit_small_patch16_224", "deit_base_patch16_224"),
    "Swin": ("swin_tiny_patch4_window7_224", "swin_small_patch4_window7_224", "swin_base_patch4_window7_224"),
    "XCiT": ("xcit_small_24_p16_224", "xcit_medium_24_p16_224"),
}
QUARTER_TURNS = "quarter turns"


@dataclass(frozen=True)
class CatalogRow:
    family: str
    cost: ModelCost
    invariances: str


def catalog(
    num_classes: int = 1000, progress: Callable[[list[tuple[str, str]]], Iterable[tuple[str, str]]] = iter
) -> list[CatalogRow]:
    """Every model, counted at its own image size. Takes about a second a model."""
    families = {family: tuple(names) for family, names in FAMILIES.items()} | TIMM_MODELS
    named = [(family, name) for family, names in families.items() for name in names]
    return [
        CatalogRow(family, measure_cost(name, num_classes=num_classes), invariances(name))
        for family, name in progress(named)
    ]


def invariances(name: str) -> str:
    """What the model keeps its answer under, as registered; tests hold every name to it."""
    return QUARTER_TURNS if name in ("spectral_vmamba_nano", "spectral_vmamba_lite", *_PAPERS_MODELS) else ""


_PAPERS_MODELS = ("spectral_vmamba_tiny", "spectral_vmamba_small", "spectral_vmamba_base")


def as_markdown(rows: list[CatalogRow], num_classes: int) -> str:
    headings = ("model", "family", "trainable", "frozen", "px", "GFLOPs, authors", "GFLOPs, all", "invariant to")
    lines = ["| " + " | ".join(headings) + " |", "|---|---|---:|---:|---:|---:|---:|---|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    return "\n".join([f"At {num_classes} classes.", "", *lines, ""])


def cells(row: CatalogRow) -> list[str]:
    cost = row.cost
    parameters = [f"{cost.trainable_parameters:,}", f"{cost.frozen_parameters:,}" if cost.frozen_parameters else ""]
    flops = [f"{cost.gflops_authors:.3f}", f"{cost.gflops:.3f}"]
    return [cost.name, row.family, *parameters, str(cost.input_size[0]), *flops, row.invariances]
