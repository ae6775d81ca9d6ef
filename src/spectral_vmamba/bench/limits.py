"""How near the scan comes to the memory's speed, and the model to its own matrix products."""

from dataclasses import dataclass

import torch

from spectral_vmamba.bench.memory import OUR_MODEL
from spectral_vmamba.bench.model import photograph_batch, seeded_model
from spectral_vmamba.bench.replay import Replay, record_products, replay
from spectral_vmamba.bench.scan import HEADLINE, PATHS, our_backend, scan_inputs
from spectral_vmamba.bench.settings import Settings, Track
from spectral_vmamba.bench.timing import best_seconds
from spectral_vmamba.ops.selective_scan import selective_scan

# tokens × channels: the headline, and the stages of the tiny model after it
SCANS = (HEADLINE, (49, 1024), (16, 2048), (784, 512), (3136, 96))
TARGET_SHARE = 0.70


@dataclass(frozen=True)
class ScanLimit:
    """The least bytes a pass can move, every array once, and how long it takes; backward is the backward alone."""

    tokens: int
    channels: int
    batch: int
    bytes: dict[str, int]
    seconds: dict[str, float]


@dataclass(frozen=True)
class LimitsResult:
    ours: str
    copy_bandwidth: float  # bytes/s, read and written ones counted
    scans: list[ScanLimit]
    model: str
    batch: int
    forward_seconds: float
    products: Replay
    notices: list[str]

    def bandwidth_share(self, scan: ScanLimit, direction: str) -> float:
        """Time that moving the bytes alone would take, of the time taken."""
        return scan.bytes[direction] / self.copy_bandwidth / scan.seconds[direction]

    @property
    def products_share(self) -> float:
        return self.products.seconds / self.forward_seconds


def measure_limits(settings: Settings, track: Track) -> LimitsResult:
    ours, notices = our_backend()
    name, batch, pixels, sizes = OUR_MODEL, 8, 224, SCANS
    if settings.quick:
        name, batch, pixels, sizes = "spectral_vmamba_nano", 2, 32, ((49, 96),)
    bandwidth = copy_bandwidth(2**24 if settings.quick else 2**28)
    scans = [measure_scan_limit(ours, size, batch, settings.seed) for size in track(sizes, "scan limits")]
    model, images = seeded_model(name, settings.seed), photograph_batch(batch, pixels, settings.seed)
    calls = record_products(model, images)
    with torch.no_grad():
        forward = best_seconds(lambda: model(images))
    products = replay(calls, track)
    return LimitsResult(ours, bandwidth, scans, name, batch, forward, products, notices)


def copy_bandwidth(size: int) -> float:
    source, target = torch.ones(size // 4), torch.empty(size // 4)
    return 2 * size / best_seconds(lambda: target.copy_(source))


def measure_scan_limit(backend: str, size: tuple[int, int], batch: int, seed: int) -> ScanLimit:
    tokens, channels = size
    tensors, orders = scan_inputs(batch, tokens, channels, PATHS, seed)
    leaves = [tensor.requires_grad_() for tensor in tensors]
    y = selective_scan(*leaves, orders, backend=backend)  # pyright: ignore
    gradient = torch.ones_like(y)
    with torch.no_grad():
        forward = best_seconds(lambda: selective_scan(*tensors, orders, backend=backend))  # pyright: ignore
    backward = best_seconds(lambda: torch.autograd.grad(y, leaves, gradient, retain_graph=True))
    inputs = sum(tensor.nbytes for tensor in tensors)
    moved = {
        "forward": inputs + orders.nbytes + y.nbytes,
        "backward": 2 * inputs + orders.nbytes + gradient.nbytes,  # inputs read, their gradients written
    }
    return ScanLimit(tokens, channels, batch, moved, {"forward": forward, "backward": backward})
