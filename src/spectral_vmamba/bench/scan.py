"""How fast the selective scan is against other ways to write it, over a grid of sizes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from math import inf

import torch
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.bench.scan_peers import Scan, available_peers
from spectral_vmamba.bench.settings import Settings, Track
from spectral_vmamba.bench.timing import Comparison, compare, growth_exponent
from spectral_vmamba.ops.selective_scan import BACKENDS, missing_backends, selective_scan
from spectral_vmamba.ops.selective_scan.portable import selective_scan_portable

TOKENS = (49, 196, 784, 3136)
CHANNELS = (96, 512, 2048)
HEADLINE = (196, 512)
PATHS, BATCH = 8, 8
# Compiling the unrolled paths takes four minutes a cell, so only in one.
COMPILED = {(49, 96)}
# The hungriest competitor (mambapy, backward) holds 21 arrays of (b, k, l, d) at its peak, measured.
LIVE_COPIES = 24
LARGEST_BYTES = 8 * 2**30
PASSES: tuple[str, ...] = ("forward", "forward+backward")


@dataclass(frozen=True)
class ScanCell:
    tokens: int
    channels: int
    batch: int
    direction: str
    comparison: Comparison


@dataclass(frozen=True)
class ScanResult:
    ours: str
    peers: tuple[str, ...]  # how others do it; what is not ours and not among them is our own code run otherwise
    paths: int
    cells: list[ScanCell]
    headline: tuple[int, int]
    smallest_ratio: dict[str, dict[str, float]]  # pass → competitor → our smallest advantage over the grid
    growth: dict[str, dict[int, float]]  # pass → channels → exponent of our time per image in the tokens
    notices: list[str]


def our_backend() -> tuple[str, list[str]]:
    """The fastest backend of this installation, and a line if it is not the native one."""
    if "native" in BACKENDS and "native" not in missing_backends():
        return "native", []
    reason = missing_backends().get("native", "this version has none")
    return "auto", [f"the native scan is not built ({reason}); 'auto' stands in for it"]


def scan_inputs(
    batch: int, tokens: int, channels: int, paths: int, seed: int
) -> tuple[list[Tensor], Int[Tensor, "b k l"]]:
    generator = torch.Generator().manual_seed(seed)
    per_token, per_set = (batch, paths, tokens), (paths, channels)
    shapes = [(batch, tokens, channels), (*per_token, channels), (*per_set, 1), (*per_token, 1), (*per_token, 1)]
    tensors = [torch.randn(shape, generator=generator) for shape in (*shapes, per_set, per_set)]
    tensors[2] = -tensors[2].exp()
    orders = torch.rand(per_token, generator=generator).argsort(-1)
    return tensors, orders


def scan_pass(
    scan: Scan, tensors: list[Tensor], orders: Tensor, gradient: Float[Tensor, "b l d"] | None
) -> Callable[[], list[Tensor]]:
    """One call: the output, or with `gradient` of it the gradients of all inputs."""
    if gradient is None:
        inputs = [tensor.detach() for tensor in tensors]

        def forward() -> list[Tensor]:
            with torch.no_grad():
                return [scan(*inputs, orders)]

        return forward
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    return lambda: list(torch.autograd.grad(scan(*leaves, orders), leaves, gradient))


def largest_difference(found: list[Tensor], expected: list[Tensor]) -> float:
    pairs = zip(found, expected, strict=True)
    return max(float((a - b).abs().max() / b.abs().max().clamp_min(1e-30)) for a, b in pairs)


def fitting_batch(tokens: int, channels: int, batch: int = BATCH) -> int:
    """The batch, halved until every competitor fits the memory."""
    while batch > 1 and 4 * LIVE_COPIES * batch * PATHS * tokens * channels > LARGEST_BYTES:
        batch //= 2
    return batch


def measure_scan(settings: Settings, track: Track) -> ScanResult:
    backend, notices = our_backend()
    peers, missing = available_peers()
    competitors: dict[str, Scan] = {backend: partial(selective_scan, backend=backend)}  # pyright: ignore[reportArgumentType]
    competitors |= peers | {"portable": partial(selective_scan, backend="portable")}
    sizes = [(tokens, channels) for tokens in TOKENS for channels in CHANNELS]
    if settings.quick:
        sizes = [(tokens, channels) for tokens in (16, 49) for channels in (24, 96)]
    cells = []
    for tokens, channels in track(sizes, "scan"):
        chosen = dict(competitors)
        if (tokens, channels) in COMPILED and settings.compile:
            chosen["torch.compile(portable)"] = _compiled_portable()
        batch = fitting_batch(tokens, channels, 2 if settings.quick else BATCH)
        tensors, orders = scan_inputs(batch, tokens, channels, PATHS, settings.seed)
        for name in PASSES:
            gradient = None if name == "forward" else torch.ones_like(tensors[0])
            calls = {label: scan_pass(scan, tensors, orders, gradient) for label, scan in chosen.items()}
            comparison = compare(calls, ours=backend, difference=largest_difference)
            cells.append(ScanCell(tokens, channels, batch, name, comparison))
    return _summary(backend, tuple(peers), cells, notices + missing)


def _compiled_portable() -> Scan:
    """Compiles at the first call, so that a machine that cannot only loses this competitor."""
    torch.compiler.reset()

    @cache
    def compiled() -> Scan:
        return torch.compile(selective_scan_portable, dynamic=False)

    return lambda *inputs: compiled()(*inputs)


def _summary(ours: str, peers: tuple[str, ...], cells: list[ScanCell], notices: list[str]) -> ScanResult:
    measured = {(cell.tokens, cell.channels) for cell in cells}
    smallest: dict[str, dict[str, float]] = {name: {} for name in PASSES}
    growth: dict[str, dict[int, float]] = {name: {} for name in PASSES}
    for cell in cells:
        for other in cell.comparison.timings.keys() - {ours}:
            ratio = cell.comparison.ratio(other, ours) or inf
            smallest[cell.direction][other] = min(ratio, smallest[cell.direction].get(other, inf))
    for name in PASSES:
        for channels in sorted({channels for _, channels in measured}):
            line = [cell for cell in cells if cell.direction == name and cell.channels == channels]
            per_image = [cell.comparison.timings[ours].seconds / cell.batch for cell in line]
            growth[name][channels] = growth_exponent([cell.tokens for cell in line], per_image)
    headline = HEADLINE if HEADLINE in measured else max(measured)
    return ScanResult(ours, peers, PATHS, cells, headline, smallest, growth, notices)
