"""Images per second of every model of the paper's comparison, relative to Swin-T, side by side."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table
from torch import Tensor

from spectral_vmamba.bench.memory import PEER_MODEL
from spectral_vmamba.bench.model import photograph_batch, seeded_model
from spectral_vmamba.bench.scan import PASSES
from spectral_vmamba.bench.settings import Settings, Track
from spectral_vmamba.bench.timing import Comparison, as_times, compare
from spectral_vmamba.metrics.catalog import TIMM_MODELS
from spectral_vmamba.models.variants import FAMILIES, is_cpu_scale

BATCH, PIXELS = 4, 224
# What VMamba is without a fused scan: its textbook formulation, one token after the other.
FUSED_MODEL, FUSED_BATCHES = "vmamba_tiny", (1, 8)


@dataclass(frozen=True)
class ModelSpeed:
    """`comparison` is with the peer alone; both take turns."""

    family: str
    name: str
    direction: str
    comparison: Comparison


@dataclass(frozen=True)
class ModelsResult:
    peer: str
    batch: int
    pixels: int
    speeds: list[ModelSpeed]
    fused_model: str
    fused: dict[int, Comparison]  # batch → fused op and textbook loop
    notices: list[str]


def measure_models(settings: Settings, track: Track) -> ModelsResult:
    named = [(family, name) for family, names in FAMILIES.items() for name in names if _is_in_the_paper(name)]
    named += [(family, name) for family, names in TIMM_MODELS.items() for name in names if name != PEER_MODEL]
    peer, batch, pixels, fused_model, fused_batches = PEER_MODEL, BATCH, PIXELS, FUSED_MODEL, FUSED_BATCHES
    if settings.quick:
        named = [(family, name) for family, names in FAMILIES.items() for name in names if is_cpu_scale(name)][:2]
        peer, batch, pixels, fused_model, fused_batches = "resnet18", 2, 32, "vmamba_nano", (1,)
    cases = [(family, name, direction) for family, name in named for direction in PASSES]
    speeds = [
        ModelSpeed(family, name, direction, _against_peer(name, peer, batch, pixels, direction, settings.seed))
        for family, name, direction in track(cases, "models")
    ]
    fused = {
        batch: _against_textbook(fused_model, batch, pixels, settings.seed)
        for batch in track(fused_batches, "textbook formulation")
    }
    return ModelsResult(peer, batch, pixels, speeds, fused_model, fused, [])


def _is_in_the_paper(name: str) -> bool:
    """Not the CPU-scale networks, nor the spectral B, which is the network of S."""
    return not is_cpu_scale(name) and name != "spectral_vmamba_base"


def _against_peer(name: str, peer: str, batch: int, pixels: int, direction: str, seed: int) -> Comparison:
    images = photograph_batch(batch, pixels, seed)
    return compare({each: _pass(each, images, direction, seed) for each in (name, peer)}, ours=name)


def _against_textbook(name: str, batch: int, pixels: int, seed: int) -> Comparison:
    images = photograph_batch(batch, pixels, seed)
    backends = {"fused": "auto", "textbook": "reference"}
    competitors = {label: _pass(name, images, "forward", seed, backend=b) for label, b in backends.items()}
    return compare(competitors, ours="fused", difference=lambda a, b: float((a - b).abs().max() / b.abs().max()))


def _pass(name: str, images: Tensor, direction: str, seed: int, **options: Any) -> Callable[[], Any]:
    model = seeded_model(name, seed, **options)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def forward() -> Tensor:
        with torch.no_grad():
            return model(images)

    def both() -> None:
        torch.autograd.grad(model.train()(images).sum(), parameters, allow_unused=True)

    return forward if direction == "forward" else both


def show_models(result: ModelsResult) -> list[RenderableType]:
    table = Table("model", "family", *PASSES)
    for name, (family, ratios) in _by_model(result).items():
        table.add_row(name, family, *(as_times(ratios.get(direction)) for direction in PASSES))
    lines = [
        f"{result.fused_model}, forward, batch {batch}: {as_times(comparison.ratio('textbook', 'fused'))} the images "
        "per second of its textbook formulation, a loop over the tokens (our reference backend)."
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
    models = _by_model(result)
    figure = Figure(figsize=(9, 1.5 + 0.4 * len(models)), layout="constrained")
    axes = figure.subplots()
    for i, direction in enumerate(PASSES):
        ratios = [ratios.get(direction) or 0.0 for _, ratios in models.values()]
        bars = axes.barh([y + 0.4 * i for y in range(len(models))], ratios, 0.4, label=direction)
        axes.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axes.set_yticks([y + 0.2 for y in range(len(models))], list(models))
    axes.axvline(1, color="tab:gray", linewidth=1)
    axes.invert_yaxis()
    axes.margins(x=0.08)
    axes.set_xlabel(f"images per second relative to {result.peer} (batch {result.batch}, {result.pixels} px)")
    axes.legend(loc="lower right")
    return figure


def _by_model(result: ModelsResult) -> dict[str, tuple[str, dict[str, float | None]]]:
    models: dict[str, tuple[str, dict[str, float | None]]] = {}
    for speed in result.speeds:
        _, ratios = models.setdefault(speed.name, (speed.family, {}))
        ratios[speed.direction] = speed.comparison.ratio(result.peer, speed.name)
    return models
