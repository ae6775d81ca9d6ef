"""The scan against the memory bandwidth, and the model against its own matrix products."""

from dataclasses import dataclass

import torch

from benchmarks.suite.products import Replay, record_products, replay_products
from benchmarks.suite.scan import HEADLINE, PATHS, choose_backend, our_scan, scan_call, scan_inputs
from benchmarks.suite.settings import Settings
from benchmarks.suite.timing import best_seconds
from benchmarks.suite.workloads import OUR_MODEL, model_call, photograph_batch, seeded_model
from spectral_vmamba.utils.progress import Progress

# (tokens, channels): the headline, the later stages of the tiny model, and two sizes with more tokens
SCANS = (HEADLINE, (49, 1024), (16, 2048), (784, 512), (3136, 96))
TARGET_SHARE = 0.70


@dataclass(frozen=True)
class ScanLimit:
    """The least bytes that a pass must move, each array once, and its time. "backward" is the backward alone."""

    tokens: int
    channels: int
    batch: int
    bytes: dict[str, int]
    seconds: dict[str, float]


@dataclass(frozen=True)
class LimitsResult:
    """`copy_bandwidth` is in bytes per second, where reads and writes both count."""

    ours: str
    copy_bandwidth: float
    scans: list[ScanLimit]
    model: str
    batch: int
    forward_seconds: float
    products: Replay
    notices: list[str]

    def bandwidth_share(self, scan: ScanLimit, direction: str) -> float:
        """Return the time that moving the bytes alone would take, relative to the time of the pass."""
        return scan.bytes[direction] / self.copy_bandwidth / scan.seconds[direction]

    @property
    def products_share(self) -> float:
        return self.products.seconds / self.forward_seconds


def measure_limits(settings: Settings, progress: Progress) -> LimitsResult:
    ours, notices = choose_backend()
    name, batch, pixels, sizes = OUR_MODEL, 8, 224, SCANS
    if settings.quick:
        name, batch, pixels, sizes = "spectral_vmamba_nano", 2, 32, ((49, 96),)
    bandwidth = measure_copy_bandwidth(2**24 if settings.quick else 2**28)
    scans = [
        measure_scan_limit(ours, tokens, channels, batch, settings.seed)
        for tokens, channels in progress(sizes, "scan limits", len(sizes))
    ]
    model, images = seeded_model(name, settings.seed), photograph_batch(batch, pixels, settings.seed)
    calls = record_products(model, images)
    forward = best_seconds(model_call(model, images, "forward"))
    products = replay_products(calls, progress)
    return LimitsResult(ours, bandwidth, scans, name, batch, forward, products, notices)


def measure_copy_bandwidth(size: int) -> float:
    """Return bytes per second, read and written, of copying `size` bytes."""
    source, target = torch.ones(size // 4), torch.empty(size // 4)
    return 2 * size / best_seconds(lambda: target.copy_(source))


def measure_scan_limit(backend: str, tokens: int, channels: int, batch: int, seed: int) -> ScanLimit:
    inputs = scan_inputs(batch, tokens, channels, PATHS, seed)
    leaves = [tensor.requires_grad_() for tensor in inputs.differentiable]
    y = our_scan(backend)(inputs)
    gradient = torch.ones_like(y)
    forward = best_seconds(scan_call(our_scan(backend), inputs, None))
    backward = best_seconds(lambda: torch.autograd.grad(y, leaves, gradient, retain_graph=True))
    input_bytes, order_bytes = sum(tensor.nbytes for tensor in leaves), inputs.orders.nbytes
    moved = {
        "forward": input_bytes + order_bytes + y.nbytes,
        "backward": 2 * input_bytes + order_bytes + gradient.nbytes,  # inputs are read, their gradients written
    }
    return ScanLimit(tokens, channels, batch, moved, {"forward": forward, "backward": backward})
