"""The matrix products and convolutions of a model: which ones occur, and how fast torch does each of them alone."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import FlopCounterMode

from spectral_vmamba.bench.timing import best_seconds

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "mkldnn_convolution", "linear", "mkldnn_linear")


@dataclass(frozen=True)
class TensorLike:
    """Shape, strides and type: what a kernel's speed depends on. Strides tell channels-last from channels-first."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    def random(self) -> Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype).normal_()


@dataclass(frozen=True)
class Call:
    """An operator and its arguments, hashable, with tensors as `TensorLike`."""

    operator: Any
    arguments: tuple

    @property
    def name(self) -> str:
        return self.operator.overloadpacket.__name__

    def with_random_inputs(self) -> Callable[[], Any]:
        inputs = tree_map_only(TensorLike, TensorLike.random, _listed(self.arguments))
        return lambda: self.operator(*inputs)


@dataclass(frozen=True)
class Replay:
    """Products and convolutions of one forward, each alone on random data: `seconds` and `flops` of all together."""

    seconds: float
    flops: int
    calls: int
    slowest: list[tuple[str, int, float]]  # description, times it occurs, milliseconds of all its occurrences


class _Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls: Counter[Call] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if getattr(func, "namespace", "") == "aten" and func.overloadpacket.__name__.lstrip("_") in _PRODUCTS:
            likes = tree_map_only(Tensor, lambda t: TensorLike(tuple(t.shape), t.stride(), t.dtype), args)
            self.calls[Call(func, _hashable(likes))] += 1
        return func(*args, **(kwargs or {}))


def record_products(model: nn.Module, images: Tensor) -> Counter[Call]:
    with torch.no_grad(), _Recorder() as recorder:
        model(images)
    return recorder.calls


def replay(calls: Counter[Call], track: Callable) -> Replay:
    total_seconds, total_flops, found = 0.0, 0, []
    with torch.no_grad():
        for call in track(list(calls), "products and convolutions alone"):
            run, times = call.with_random_inputs(), calls[call]
            seconds = best_seconds(run)
            with FlopCounterMode(display=False) as counter:
                run()
            total_seconds += times * seconds
            total_flops += times * counter.get_total_flops()
            found.append((_describe(call), times, times * seconds * 1e3))
    found.sort(key=lambda entry: -entry[2])
    return Replay(total_seconds, total_flops, calls.total(), found[:5])


def _describe(call: Call) -> str:
    shapes = ["×".join(map(str, like.shape)) for like in call.arguments if isinstance(like, TensorLike)]
    return f"{call.name} {', '.join(shapes)}"


def _hashable(arguments: Any) -> Any:
    return tuple(_hashable(one) for one in arguments) if isinstance(arguments, (list, tuple)) else arguments


def _listed(arguments: Any) -> Any:
    """Operators take tuples where they ask for lists, and the other way round."""
    return [_listed(one) for one in arguments] if isinstance(arguments, tuple) else arguments
