"""Where the time of a forward goes, by part of the method."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.suite.timing import Clock
from benchmarks.suite.workloads import photograph_batch, seeded_model
from spectral_vmamba.layers import Block, RotationalFeatureNormalizer, S6Mixer
from spectral_vmamba.models import SpectralTokenizer
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.traversal import Traversal

PARTS = ("RFN, stem", "frame", "STS", "scan", "projections", "MLP", "norms, rest")
# Module types that appear as regions of the profile.
REGIONS = {RotationalFeatureNormalizer: "rfn", SpectralTokenizer: "tokenizer", S6Mixer: "mixer"}
WHOLE = "region:whole"
PROFILES, FORWARDS = 3, 15
_MATRIX_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "einsum")


@dataclass(frozen=True)
class Shares:
    """Milliseconds of each part in one profiled forward; their sum is the time of the forward.

    The profiler slows down small operations more than large ones, and STS consists of many small ones. Its share is
    therefore also measured without the profiler: `sts_milliseconds` of `unprofiled_milliseconds`.
    """

    model: str
    batch: int
    pixels: int
    milliseconds: dict[str, float]
    unprofiled_milliseconds: float
    sts_milliseconds: float

    def share(self, part: str) -> float:
        return self.milliseconds[part] / sum(self.milliseconds.values())

    @property
    def sts_share(self) -> float:
        return self.sts_milliseconds / self.unprofiled_milliseconds


def measure_shares(name: str, batch: int, pixels: int, seed: int) -> Shares:
    """Return the fastest of several forwards, with and without the profiler."""
    model, images = seeded_model(name, seed), photograph_batch(batch, pixels, seed)
    with torch.no_grad():
        whole, sts = min(time_forward(model, images) for _ in range(FORWARDS))
        runs = [sum_parts(profile_forward(model, images)) for _ in range(PROFILES)]
    return Shares(name, batch, pixels, min(runs, key=lambda parts: sum(parts.values())), whole * 1e3, sts * 1e3)


def time_forward(model: nn.Module, images: Tensor, clock: Clock = time.perf_counter) -> tuple[float, float]:
    """Return the seconds of a forward, and of STS in it."""
    return time_with_sts(model, lambda: model(images), clock)


def time_with_sts(
    model: nn.Module, call: Callable[[], object], clock: Clock = time.perf_counter
) -> tuple[float, float]:
    """Return the seconds of a call that runs the model, and of STS in it.

    torch.utils.benchmark times whole statements only, and STS is a part of this one.
    """
    tokenizer = next(module for module in model.modules() if isinstance(module, SpectralTokenizer))
    traverse, sts_seconds = tokenizer.traverse, 0.0

    def timed_traverse(tokens: Tensor, grid: Grid) -> Traversal:
        nonlocal sts_seconds
        start = clock()
        traversal = traverse(tokens, grid)
        sts_seconds += clock() - start
        return traversal

    vars(tokenizer)["traverse"] = timed_traverse
    try:
        start = clock()
        call()
        return clock() - start, sts_seconds
    finally:
        del vars(tokenizer)["traverse"]


def profile_forward(model: nn.Module, images: Tensor) -> list[Any]:
    """Return the events of a forward, which happens in the region `WHOLE`."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler logs every start to stderr
    with _regions(model), profile(activities=[ProfilerActivity.CPU]) as profiler, record_function(WHOLE):
        model(images)
    return list(profiler.events() or [])


def sum_parts(events: Iterable[Any]) -> dict[str, float]:
    """Return the milliseconds of each part: each event counts without the events inside it."""
    milliseconds: dict[str, float] = {part: 0.0 for part in PARTS}
    for event in events:
        names = _enclosing_names(event)
        if WHOLE in names:
            milliseconds[_choose_part(names)] += event.self_cpu_time_total / 1e3
    return milliseconds


def _enclosing_names(event: Any) -> list[str]:
    """Return the names of an event and of all events around it, innermost first."""
    names = []
    while event is not None:
        names.append(event.name)
        event = event.cpu_parent
    return names


def _choose_part(names: list[str]) -> str:
    if any("selective_scan" in name for name in names):
        return "scan"
    if "region:rfn" in names:
        return "RFN, stem"
    if "region:sts" in names:
        return "STS"
    if "region:tokenizer" in names:
        return "frame"
    if "region:mlp" in names:
        return "MLP"
    if "region:mixer" in names and any(name.removeprefix("aten::") in _MATRIX_PRODUCTS for name in names):
        return "projections"
    return "norms, rest"


@contextmanager
def _regions(model: nn.Module) -> Iterator[None]:
    """Show the modules of `REGIONS`, the MLPs and STS as `region:…` in profiles taken inside."""
    handles, entered = [], []

    def mark(module: nn.Module, name: str) -> None:
        def enter(*_: Any) -> None:
            entered.append(record_function(f"region:{name}"))
            entered[-1].__enter__()

        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(lambda *_: entered.pop().__exit__(None, None, None)))

    for module in model.modules():
        for kind, name in REGIONS.items():
            if isinstance(module, kind):
                mark(module, name)
        if isinstance(module, Block):
            mark(module.mlp, "mlp")
        if isinstance(module, SpectralTokenizer):
            module.traverse = record_function("region:sts")(module.traverse)
    try:
        yield
    finally:
        for module in model.modules():
            vars(module).pop("traverse", None)
        for handle in handles:
            handle.remove()
