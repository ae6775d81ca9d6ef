"""Where the time of a forward goes, and images per second against Swin-T."""

from dataclasses import dataclass

from benchmarks.suite.forward_profile import Shares, measure_shares
from benchmarks.suite.scan import PASSES
from benchmarks.suite.settings import Settings
from benchmarks.suite.timing import Comparison, compare
from benchmarks.suite.workloads import OUR_MODEL, PEER_MODEL, model_call, photograph_batch, seeded_model
from spectral_vmamba.utils.progress import Progress


@dataclass(frozen=True)
class ModelResult:
    """`throughput` is pass → seconds per batch."""

    shares: list[Shares]
    ours: str
    peer: str
    batch: int
    throughput: dict[str, Comparison]
    notices: list[str]


def measure_model(settings: Settings, progress: Progress) -> ModelResult:
    ours, peer, batch, pixels = OUR_MODEL, PEER_MODEL, 8, 224
    cases = [(OUR_MODEL, 8, 224), ("spectral_vmamba_nano", 8, 32), ("spectral_vmamba_nano", 32, 32)]
    if settings.quick:
        ours, peer, batch, pixels = "spectral_vmamba_nano", "resnet18", 2, 32
        cases = [("spectral_vmamba_nano", 2, 32)]
    shares = [measure_shares(*case, settings.seed) for case in progress(cases, "shares", len(cases))]
    throughput = {
        direction: compare_models((ours, peer), batch, pixels, direction, settings.seed)
        for direction in progress(PASSES, "throughput", len(PASSES))
    }
    return ModelResult(shares, ours, peer, batch, throughput, [])


def compare_models(names: tuple[str, str], batch: int, pixels: int, direction: str, seed: int) -> Comparison:
    """Compare seconds per batch of two models. The first one is ours."""
    images = photograph_batch(batch, pixels, seed)
    calls = {name: model_call(seeded_model(name, seed), images, direction) for name in names}
    return compare(calls, names[0])
