"""Speed of the selective scan against other implementations, over a grid of sizes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import inf

import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks.suite.scan_peers import Scan, available_peers
from benchmarks.suite.settings import Settings
from benchmarks.suite.timing import Comparison, compare, growth_exponent, largest_difference
from spectral_vmamba.ops.selective_scan import BACKENDS, ScanInputs, missing_backends, selective_scan
from spectral_vmamba.ops.selective_scan.portable import selective_scan_portable
from spectral_vmamba.utils.progress import Progress

TOKENS = (49, 196, 784, 3136)
CHANNELS = (96, 512, 2048)
HEADLINE = (196, 512)
PATHS, BATCH = 8, 8
# Compiling the unrolled paths takes four minutes per size, so only one size is compiled.
COMPILED = {(49, 96)}
# The competitor that needs most memory (mambapy, backward) holds 21 arrays of (b, k, l, d) at its peak, measured.
LIVE_COPIES = 24
LARGEST_BYTES = 8 * 2**30
PASSES: tuple[str, ...] = ("forward", "forward+backward")


@dataclass(frozen=True)
class ScanCell:
    """Times at one size. `direction` is one of `PASSES`."""

    tokens: int
    channels: int
    batch: int
    direction: str
    comparison: Comparison


@dataclass(frozen=True)
class ScanResult:
    """All times, and their summary.

    `peers` are implementations of others; a competitor that is neither `ours` nor a peer is our own code run in
    another way. `smallest_ratio` is pass → competitor → smallest ratio over the grid; `growth` is pass → channels →
    exponent of our time per image as a power of the tokens.
    """

    ours: str
    peers: tuple[str, ...]
    paths: int
    cells: list[ScanCell]
    headline: tuple[int, int]
    smallest_ratio: dict[str, dict[str, float]]
    growth: dict[str, dict[int, float]]
    notices: list[str]


def choose_backend() -> tuple[str, list[str]]:
    """Return the fastest backend of this installation, and a notice if it is not the native one."""
    if "native" in BACKENDS and "native" not in missing_backends():
        return "native", []
    reason = missing_backends().get("native", "not part of this version")
    return "auto", [f"the native scan is not built ({reason}); backend 'auto' is measured instead"]


def scan_inputs(batch: int, tokens: int, channels: int, paths: int, seed: int) -> ScanInputs:
    """Return random inputs along random orders, with one state and one parameter set per path."""
    generator = torch.Generator().manual_seed(seed)
    per_token, per_set = (batch, paths, tokens), (paths, channels)
    shapes = [(batch, tokens, channels), (*per_token, channels), (*per_set, 1), (*per_token, 1), (*per_token, 1)]
    tensors = [torch.randn(shape, generator=generator) for shape in (*shapes, per_set, per_set)]
    tensors[2] = -tensors[2].exp()
    return ScanInputs._make([*tensors, torch.rand(per_token, generator=generator).argsort(-1)])


def scan_call(scan: Scan, inputs: ScanInputs, gradient: Float[Tensor, "b l d"] | None) -> Callable[[], list[Tensor]]:
    """Return the call to time. It returns the output, or with `gradient` the gradients of all inputs."""
    if gradient is None:

        def forward() -> list[Tensor]:
            with torch.no_grad():
                return [scan(inputs)]

        return forward
    leaves = [tensor.detach().requires_grad_() for tensor in inputs.differentiable]
    differentiable = ScanInputs._make([*leaves, inputs.orders])
    return lambda: list(torch.autograd.grad(scan(differentiable), leaves, gradient))


def our_scan(backend: str) -> Scan:
    return lambda inputs: selective_scan(*inputs, backend=backend)  # pyright: ignore[reportArgumentType]


def fit_batch(tokens: int, channels: int, batch: int = BATCH) -> int:
    """Halve the batch until every competitor fits into `LARGEST_BYTES`."""
    while batch > 1 and 4 * LIVE_COPIES * batch * PATHS * tokens * channels > LARGEST_BYTES:
        batch //= 2
    return batch


def measure_scan(settings: Settings, progress: Progress) -> ScanResult:
    backend, notices = choose_backend()
    peers, missing = available_peers()
    competitors = {backend: our_scan(backend), **peers, "portable": our_scan("portable")}
    sizes = [(tokens, channels) for tokens in TOKENS for channels in CHANNELS]
    if settings.quick:
        sizes = [(tokens, channels) for tokens in (16, 49) for channels in (24, 96)]
    cells = []
    for tokens, channels in progress(sizes, "scan", len(sizes)):
        scans = dict(competitors)
        if (tokens, channels) in COMPILED and settings.compile:
            scans["torch.compile(portable)"] = _compile_portable()
        batch = fit_batch(tokens, channels, 2 if settings.quick else BATCH)
        inputs = scan_inputs(batch, tokens, channels, PATHS, settings.seed)
        for direction in PASSES:
            gradient = None if direction == "forward" else torch.ones_like(inputs.x)
            calls = {name: scan_call(scan, inputs, gradient) for name, scan in scans.items()}
            comparison = compare(calls, backend, largest_difference)
            cells.append(ScanCell(tokens, channels, batch, direction, comparison))
    return _summarize(backend, tuple(peers), cells, notices + missing)


def _compile_portable() -> Scan:
    """Return a scan that compiles at its first call: a machine without a compiler loses only this competitor."""
    torch.compiler.reset()

    @cache
    def compiled() -> Scan:
        return torch.compile(selective_scan_portable, dynamic=False)

    return lambda inputs: compiled()(inputs)


def _summarize(ours: str, peers: tuple[str, ...], cells: list[ScanCell], notices: list[str]) -> ScanResult:
    sizes = {(cell.tokens, cell.channels) for cell in cells}
    smallest: dict[str, dict[str, float]] = {direction: {} for direction in PASSES}
    growth: dict[str, dict[int, float]] = {direction: {} for direction in PASSES}
    for cell in cells:
        for other in cell.comparison.timings.keys() - {ours}:
            ratio = cell.comparison.ratio(other, ours) or inf
            smallest[cell.direction][other] = min(ratio, smallest[cell.direction].get(other, inf))
    for direction in PASSES:
        for channels in sorted({channels for _, channels in sizes}):
            line = [cell for cell in cells if cell.direction == direction and cell.channels == channels]
            per_image = [cell.comparison.timings[ours].seconds / cell.batch for cell in line]
            growth[direction][channels] = growth_exponent([cell.tokens for cell in line], per_image)
    headline = HEADLINE if HEADLINE in sizes else max(sizes)
    return ScanResult(ours, peers, PATHS, cells, headline, smallest, growth, notices)
