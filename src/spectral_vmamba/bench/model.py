"""Where the time of a forward goes, and how many images a second there are against Swin."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function

from spectral_vmamba.bench.memory import OUR_MODEL, PEER_MODEL
from spectral_vmamba.bench.scan import PASSES
from spectral_vmamba.bench.settings import Settings, Track
from spectral_vmamba.bench.timing import Comparison, compare
from spectral_vmamba.data import normalize, photograph_crops, resize
from spectral_vmamba.layers import Block, RotationalFeatureNormalizer, S6Mixer
from spectral_vmamba.models import SpectralTokenizer, create_model
from spectral_vmamba.models.variants import FAMILIES
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.traversal import Traversal

PARTS = ("RFN, stem", "canonical frame", "STS", "scan", "projections", "MLP", "norms, rest")
# Kinds of module that a part is recognized by, as regions of the profile.
REGIONS = {RotationalFeatureNormalizer: "rfn", SpectralTokenizer: "tokenizer", S6Mixer: "mixer"}
_GEMMS = ("mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "einsum")
_WHOLE = "region:whole"
PROFILES, FORWARDS = 3, 15


@dataclass(frozen=True)
class Shares:
    """Milliseconds of each part in one profiled forward; they sum to its whole time. A profiler makes small operations
    longer than large ones, and STS has many: its share is also taken by a stopwatch, without the profiler."""

    model: str
    batch: int
    pixels: int
    milliseconds: dict[str, float]
    unprofiled_milliseconds: float
    sts_milliseconds: float  # of these

    def share(self, part: str) -> float:
        return self.milliseconds[part] / sum(self.milliseconds.values())

    @property
    def sts_share(self) -> float:
        return self.sts_milliseconds / self.unprofiled_milliseconds


@dataclass(frozen=True)
class ModelResult:
    shares: list[Shares]
    ours: str
    peer: str
    batch: int
    throughput: dict[str, Comparison]  # pass → seconds a batch
    notices: list[str]


def measure_model(settings: Settings, track: Track) -> ModelResult:
    ours, peer, batch, pixels = OUR_MODEL, PEER_MODEL, 8, 224
    cases = [(OUR_MODEL, 8, 224), ("spectral_vmamba_nano", 8, 32), ("spectral_vmamba_nano", 32, 32)]
    if settings.quick:
        ours, peer, batch, pixels = "spectral_vmamba_nano", "resnet18", 2, 32
        cases = [("spectral_vmamba_nano", 2, 32)]
    steps: list[Callable[[], Any]] = [lambda case=case: measure_shares(*case, settings.seed) for case in cases]
    steps += [lambda name=name: _throughput((ours, peer), batch, pixels, name, settings.seed) for name in PASSES]
    done = [step() for step in track(steps, "model")]
    throughput: dict[str, Comparison] = dict(zip(PASSES, done[len(cases) :], strict=True))
    return ModelResult(done[: len(cases)], ours, peer, batch, throughput, [])


def photograph_batch(batch: int, pixels: int, seed: int) -> Float[Tensor, "b 3 H W"]:
    """Photographs, because the eigensolver's work depends on the image."""
    crops = photograph_crops(batch, 224, seed)
    images = crops.float() if pixels == 224 else resize(crops, pixels)
    return normalize(images, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def seeded_model(name: str, seed: int, **options: Any) -> nn.Module:
    torch.manual_seed(seed)
    if name in FAMILIES["Spectral VMamba"]:
        options = {"stem_weights": None, **options}
    return create_model(name, num_classes=100, **options).eval()


def measure_shares(name: str, batch: int, pixels: int, seed: int) -> Shares:
    """The fastest of several profiled forwards."""
    model, images = seeded_model(name, seed), photograph_batch(batch, pixels, seed)
    with torch.no_grad():
        whole, sts = min(_timed(model, images) for _ in range(FORWARDS))
        with _regions(model):
            runs = [_profiled(model, images) for _ in range(PROFILES)]
    return Shares(name, batch, pixels, min(runs, key=lambda parts: sum(parts.values())), whole * 1e3, sts * 1e3)


def _timed(model: nn.Module, images: Tensor) -> tuple[float, float]:
    """Seconds of a forward, and of STS in it."""
    tokenizer = next(module for module in model.modules() if isinstance(module, SpectralTokenizer))
    traverse, spent = tokenizer.traverse, 0.0

    def stopped(tokens: Tensor, grid: Grid) -> Traversal:
        nonlocal spent
        start = perf_counter()
        traversal = traverse(tokens, grid)
        spent += perf_counter() - start
        return traversal

    vars(tokenizer)["traverse"] = stopped
    try:
        start = perf_counter()
        model(images)
        return perf_counter() - start, spent
    finally:
        del vars(tokenizer)["traverse"]


def _profiled(model: nn.Module, images: Tensor) -> dict[str, float]:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler writes of its starts to the error stream
    with profile(activities=[ProfilerActivity.CPU]) as profiler, record_function(_WHOLE):
        model(images)
    milliseconds: dict[str, float] = {part: 0.0 for part in PARTS}
    for event in profiler.events() or []:
        names = _enclosing(event)
        if _WHOLE in names:
            milliseconds[_part(names)] += event.self_cpu_time_total / 1e3
    return milliseconds


def _enclosing(event: Any) -> list[str]:
    """The names of an event and of all it happened in, inside out."""
    names = []
    while event is not None:
        names.append(event.name)
        event = event.cpu_parent
    return names


def _part(names: list[str]) -> str:
    if any("selective_scan" in name for name in names):
        return "scan"
    if "region:rfn" in names:
        return "RFN, stem"
    if "region:sts" in names:
        return "STS"
    if "region:tokenizer" in names:
        return "canonical frame"
    if "region:mlp" in names:
        return "MLP"
    if "region:mixer" in names and any(name.removeprefix("aten::") in _GEMMS for name in names):
        return "projections"
    return "norms, rest"


@contextmanager
def _regions(model: nn.Module) -> Iterator[None]:
    """Modules of the method show up as `region:…` in profiles taken inside."""
    handles, opened = [], []

    def mark(module: nn.Module, name: str) -> None:
        def enter(*_: Any) -> None:
            opened.append(record_function(f"region:{name}"))
            opened[-1].__enter__()

        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(lambda *_: opened.pop().__exit__(None, None, None)))

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


def _throughput(names: tuple[str, str], batch: int, pixels: int, direction: str, seed: int) -> Comparison:
    images = photograph_batch(batch, pixels, seed)
    competitors: dict[str, Callable[[], Any]] = {}
    for name in names:
        model = seeded_model(name, seed)
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

        def forward(model=model) -> None:
            with torch.no_grad():
                model(images)

        def both(model=model, parameters=parameters) -> None:
            torch.autograd.grad(model.train()(images).sum(), parameters)

        competitors[name] = forward if direction == "forward" else both
    return compare(competitors, ours=names[0])
