"""Folding BatchNorm into the convolution before it, for networks that are only ever evaluated."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


class FoldedConv(nn.Conv2d):
    """A convolution that does the work of the BatchNorm, with fixed statistics, that follows: one pass over the maps.

    The weights stay apart, as they were trained, under the names they had; they are multiplied at every call, which
    costs next to nothing beside the convolution, and gradients reach both if someone thaws them.
    """

    following: tuple[nn.BatchNorm2d]  # in a tuple: it belongs to another module

    def forward(self, input: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c2 h2 w2"]:
        (norm,) = self.following
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = torch.rsqrt(norm.running_var + norm.eps)
        scale = scale if norm.weight is None else scale * norm.weight
        mean = norm.running_mean if self.bias is None else norm.running_mean - self.bias
        shift = -mean * scale if norm.bias is None else norm.bias - mean * scale
        return self._conv_forward(input, self.weight * scale[:, None, None, None], shift)


class FoldedNorm(nn.Module):
    """What is left of a BatchNorm: the activation of timm's BatchNormAct2d, else nothing.

    No longer a BatchNorm to those who look for one, such as `convert_sync_batchnorm`.
    """

    def forward(self, input: Tensor) -> Tensor:
        activation = getattr(self, "act", None)
        return input if activation is None else activation(input)


def fold_norms(network: nn.Module, example: Float[Tensor, "b c h w"]) -> None:
    """Let convolutions whose output goes to a BatchNorm do that one's work; in place, state dict unchanged.

    Which goes to which is seen on the example. Modules called more than once, and classes that may do more than
    `nn.Conv2d` and BatchNorm do, are left alone. Should the network then answer differently (something else reads a
    convolution's output), all is undone.
    """
    pairs = _pairs(network, example)
    kinds = [(type(conv), type(norm)) for conv, norm in pairs]
    with torch.no_grad():
        expected = network(example)
        for conv, norm in pairs:
            conv.following = (norm,)
            conv.__class__, norm.__class__ = FoldedConv, FoldedNorm
        if example.is_meta or _same(network(example), expected):
            return
    for (conv, norm), (conv_kind, norm_kind) in zip(pairs, kinds, strict=True):
        conv.__class__, norm.__class__ = conv_kind, norm_kind
        del conv.following


def _same(found: Tensor | list[Tensor], expected: Tensor | list[Tensor]) -> bool:
    """Up to the rounding of some dozens of layers."""
    found, expected = ([maps] if isinstance(maps, Tensor) else maps for maps in (found, expected))
    tolerance = torch.finfo(expected[0].dtype).eps ** 0.5
    return all(
        bool(((a - b).abs().amax() <= tolerance * b.abs().amax()).item()) for a, b in zip(found, expected, strict=True)
    )


def _pairs(network: nn.Module, example: Tensor) -> list[tuple[Any, Any]]:
    made_by: list[tuple[Tensor, nn.Module]] = []
    pairs: list[tuple[Any, Any]] = []
    called: list[nn.Module] = []

    def saw_conv(conv, inputs, output) -> None:
        made_by.append((output, conv))
        called.append(conv)

    def saw_norm(norm, inputs, output) -> None:
        pairs.extend((conv, norm) for made, conv in made_by if made is inputs[0])
        called.append(norm)

    hooks = [m.register_forward_hook(saw_conv) for m in network.modules() if type(m) is nn.Conv2d]
    hooks += [m.register_forward_hook(saw_norm) for m in network.modules() if _has_fixed_statistics(m)]
    try:
        with torch.no_grad():
            network(example)
    finally:
        for hook in hooks:
            hook.remove()
    return [(conv, norm) for conv, norm in pairs if called.count(conv) == called.count(norm) == 1]


def _has_fixed_statistics(module: nn.Module) -> bool:
    known = type(module) is nn.BatchNorm2d or type(module).__name__ == "BatchNormAct2d"
    return known and getattr(module, "running_mean", None) is not None
