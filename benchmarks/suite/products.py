"""The matrix products and convolutions of a model: which ones occur, and the time that torch takes for each alone."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.suite.timing import best_seconds
from spectral_vmamba.utils.progress import Progress

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "mkldnn_convolution", "linear", "mkldnn_linear")


@dataclass(frozen=True)
class TensorSpec:
    """What the speed of a kernel depends on: shape, strides (channels last or channels first) and type."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    def random_tensor(self) -> Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype).normal_()


@dataclass(frozen=True)
class Call:
    """An operator and its arguments, hashable: tensors as `TensorSpec`, lists as tuples."""

    operator: Any
    arguments: tuple

    @property
    def name(self) -> str:
        return self.operator.overloadpacket.__name__

    def on_random_inputs(self) -> Callable[[], Any]:
        """Return a function that calls the operator on random tensors of the same kind."""
        inputs = tree_map_only(TensorSpec, TensorSpec.random_tensor, _to_lists(self.arguments))
        return lambda: self.operator(*inputs)


@dataclass(frozen=True)
class Replay:
    """Products and convolutions of one forward, each timed alone on random data.

    `seconds`, `flops` and `calls` are totals. `slowest` has description, calls, milliseconds of these calls.
    """

    seconds: float
    flops: int
    calls: int
    slowest: list[tuple[str, int, float]]


class _Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls: Counter[Call] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if getattr(func, "namespace", "") == "aten" and func.overloadpacket.__name__.lstrip("_") in _PRODUCTS:
            specs = tree_map_only(Tensor, lambda t: TensorSpec(tuple(t.shape), t.stride(), t.dtype), args)
            self.calls[Call(func, _to_tuples(specs))] += 1
        return func(*args, **(kwargs or {}))


def record_products(model: nn.Module, images: Tensor) -> Counter[Call]:
    """Return the products and convolutions of a forward, and how often each is called."""
    with torch.no_grad(), _Recorder() as recorder:
        model(images)
    return recorder.calls


def replay_products(calls: Counter[Call], progress: Progress) -> Replay:
    total_seconds, total_flops, rows = 0.0, 0, []
    with torch.no_grad():
        for call, count in progress(calls.items(), "products and convolutions alone", len(calls)):
            run = call.on_random_inputs()
            seconds = best_seconds(run)
            with FlopCounterMode(display=False) as counter:
                run()
            total_seconds += count * seconds
            total_flops += count * counter.get_total_flops()
            rows.append((_describe(call), count, count * seconds * 1e3))
    rows.sort(key=lambda row: -row[2])
    return Replay(total_seconds, total_flops, calls.total(), rows[:5])


def _describe(call: Call) -> str:
    shapes = ["×".join(map(str, spec.shape)) for spec in call.arguments if isinstance(spec, TensorSpec)]
    return f"{call.name} {', '.join(shapes)}"


def _to_tuples(arguments: Any) -> Any:
    return tuple(_to_tuples(one) for one in arguments) if isinstance(arguments, (list, tuple)) else arguments


def _to_lists(arguments: Any) -> Any:
    """Undo `_to_tuples`: operators accept lists where they expect tuples."""
    return [_to_lists(one) for one in arguments] if isinstance(arguments, tuple) else arguments
