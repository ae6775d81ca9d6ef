"""Fold BatchNorm into the preceding convolution, for networks that are only evaluated."""

from collections import Counter
from copy import deepcopy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class FoldedConv(nn.Conv2d):
    """A convolution that also applies the following BatchNorm with fixed statistics: one pass over the maps.

    Both keep their own weights under their own names. They are multiplied at every call, which has a negligible cost
    compared with the convolution, and both get gradients if they are unfrozen.
    """

    folded_norm: tuple[nn.BatchNorm2d]  # in a tuple, so that it is not registered as a submodule

    def forward(self, input: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c2 h2 w2"]:
        (norm,) = self.folded_norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = torch.rsqrt(norm.running_var + norm.eps)
        scale = scale if norm.weight is None else scale * norm.weight
        mean = norm.running_mean if self.bias is None else norm.running_mean - self.bias
        shift = -mean * scale if norm.bias is None else norm.bias - mean * scale
        return self._conv_forward(input, self.weight * scale[:, None, None, None], shift)


class FoldedNorm(nn.Module):
    """The rest of a folded BatchNorm: the activation of timm's BatchNormAct2d, otherwise the identity.

    Not a BatchNorm, so that functions such as `convert_sync_batchnorm` ignore it.
    """

    def forward(self, input: Tensor) -> Tensor:
        activation = getattr(self, "act", None)
        return input if activation is None else activation(input)


def fold_norms(network: nn.Module, shape: tuple[int, ...]) -> None:
    """Fold each BatchNorm into the convolution whose output it alone reads, in place; the state dict does not change.

    A forward pass of images of `shape` shows which belong together. Modules that are called more than once, and
    subclasses of `nn.Conv2d` and BatchNorm, stay as they are. The result depends on the structure of the network only,
    not on its weights: the pass is on the meta device, wherever the weights are. Networks that cannot run there (they
    compute with tensors that are neither parameters nor buffers, or look at values) stay as they are.
    """
    for conv, norm in _find_pairs(network, shape):
        conv.folded_norm = (norm,)
        conv.__class__, norm.__class__ = FoldedConv, FoldedNorm


class _CountReads(TorchDispatchMode):
    """Count how many operators take each of `tensors`, by id."""

    def __init__(self):
        super().__init__()
        self.tensors: list[Tensor] = []
        self.reads: Counter[int] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        known = {id(tensor) for tensor in self.tensors}
        self.reads.update(known & {id(leaf) for leaf in tree_leaves((args, kwargs))})
        return func(*args, **(kwargs or {}))


def _find_pairs(network: nn.Module, shape: tuple[int, ...]) -> list[tuple[Any, Any]]:
    """Convolutions and the BatchNorm that is the only reader of their output."""
    twin = _copy_to_meta(network)
    originals = dict(zip(twin.modules(), network.modules(), strict=True))
    count = _CountReads()
    convs: list[nn.Module] = []  # in the order of `count.tensors`, their outputs
    pairs: list[tuple[nn.Module, nn.Module, Tensor]] = []
    calls: Counter[nn.Module] = Counter()

    def record_conv(conv, inputs, output) -> None:
        convs.append(conv)
        count.tensors.append(output)
        calls[conv] += 1

    def record_norm(norm, inputs, output) -> None:
        produced = zip(convs, count.tensors, strict=True)
        pairs.extend((conv, norm, tensor) for conv, tensor in produced if tensor is inputs[0])
        calls[norm] += 1

    for module in twin.modules():
        if type(module) is nn.Conv2d:
            module.register_forward_hook(record_conv)
        elif _has_fixed_statistics(module):
            module.register_forward_hook(record_norm)
    try:
        with torch.no_grad(), count:
            outputs = twin(torch.empty(shape, dtype=next(twin.parameters()).dtype, device="meta"))
    except RuntimeError:
        return []
    returned = {id(leaf) for leaf in tree_leaves(outputs)}
    return [
        (originals[conv], originals[norm])
        for conv, norm, tensor in pairs
        if calls[conv] == calls[norm] == count.reads[id(tensor)] == 1 and id(tensor) not in returned
    ]


def _copy_to_meta(network: nn.Module) -> nn.Module:
    """Return a copy of the network without values; its tensors are not copied first."""
    empty = {id(parameter): nn.Parameter(parameter.to("meta"), False) for parameter in network.parameters()}
    return deepcopy(network, {**empty, **{id(buffer): buffer.to("meta") for buffer in network.buffers()}})


def _has_fixed_statistics(module: nn.Module) -> bool:
    known = type(module) is nn.BatchNorm2d or type(module).__name__ == "BatchNormAct2d"
    return known and getattr(module, "running_mean", None) is not None
