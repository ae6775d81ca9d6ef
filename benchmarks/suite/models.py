"""Images per second of every model of the paper's comparison, relative to Swin-T."""

from dataclasses import dataclass

from benchmarks.suite.model import compare_models
from benchmarks.suite.scan import PASSES
from benchmarks.suite.settings import Settings
from benchmarks.suite.timing import Comparison, compare, largest_difference
from benchmarks.suite.workloads import PEER_MODEL, model_call, photograph_batch, seeded_model
from spectral_vmamba.metrics.catalog import TIMM_MODELS
from spectral_vmamba.models import FAMILIES, is_cpu_scale
from spectral_vmamba.utils.progress import Progress

BATCH, PIXELS = 4, 224
# The model that is also compared with its own textbook form, a loop over the tokens, to show what the fused scan gains.
FUSED_MODEL, FUSED_BATCHES = "vmamba_tiny", (1, 8)


@dataclass(frozen=True)
class ModelSpeed:
    """Seconds per batch of one model and of the peer, which take turns."""

    family: str
    name: str
    direction: str
    comparison: Comparison


@dataclass(frozen=True)
class ModelsResult:
    """`fused` is batch → times of the fused scan and of the textbook loop."""

    peer: str
    batch: int
    pixels: int
    speeds: list[ModelSpeed]
    fused_model: str
    fused: dict[int, Comparison]
    notices: list[str]


def measure_models(settings: Settings, progress: Progress) -> ModelsResult:
    models = [(family.title, name) for family in FAMILIES for name in family.names if _is_in_paper(name)]
    models += [(family, name) for family, names in TIMM_MODELS.items() for name in names if name != PEER_MODEL]
    peer, batch, pixels, fused_model, fused_batches = PEER_MODEL, BATCH, PIXELS, FUSED_MODEL, FUSED_BATCHES
    if settings.quick:
        models = [(family.title, name) for family in FAMILIES for name in family.names if is_cpu_scale(name)][:2]
        peer, batch, pixels, fused_model, fused_batches = "resnet18", 2, 32, "vmamba_nano", (1,)
    cases = [(family, name, direction) for family, name in models for direction in PASSES]
    speeds = [
        ModelSpeed(family, name, direction, compare_models((name, peer), batch, pixels, direction, settings.seed))
        for family, name, direction in progress(cases, "models", len(cases))
    ]
    fused = {
        size: _compare_textbook(fused_model, size, pixels, settings.seed)
        for size in progress(fused_batches, "textbook form", len(fused_batches))
    }
    return ModelsResult(peer, batch, pixels, speeds, fused_model, fused, [])


def _is_in_paper(name: str) -> bool:
    """Return False for CPU-scale networks, and for the spectral B, which is the same network as S."""
    return not is_cpu_scale(name) and name != "spectral_vmamba_base"


def _compare_textbook(name: str, batch: int, pixels: int, seed: int) -> Comparison:
    images = photograph_batch(batch, pixels, seed)
    backends = {"fused": "auto", "textbook": "reference"}
    calls = {
        label: model_call(seeded_model(name, seed, backend=backend), images, "forward")
        for label, backend in backends.items()
    }
    return compare(calls, "fused", largest_difference)
