"""Fold BatchNorm into the preceding convolution, for networks that are only evaluated."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


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


def fold_norms(network: nn.Module, example: Float[Tensor, "b c h w"]) -> None:
    """Fold each BatchNorm into the convolution whose output it normalizes, in place; the state dict does not change.

    A forward pass of the example shows which belong together. Modules that are called more than once, and subclasses of
    `nn.Conv2d` and BatchNorm, stay as they are. If the output of the network changes (because something else reads the
    output of a convolution), everything is undone.
    """
    pairs = _find_pairs(network, example)
    kinds = [(type(conv), type(norm)) for conv, norm in pairs]
    with torch.no_grad():
        expected = network(example)
        for conv, norm in pairs:
            conv.folded_norm = (norm,)
            conv.__class__, norm.__class__ = FoldedConv, FoldedNorm
        if example.is_meta or _is_close(network(example), expected):
            return
    for (conv, norm), (conv_kind, norm_kind) in zip(pairs, kinds, strict=True):
        conv.__class__, norm.__class__ = conv_kind, norm_kind
        del conv.folded_norm


def _is_close(output: Tensor | list[Tensor], expected: Tensor | list[Tensor]) -> bool:
    """Equal up to the rounding of dozens of layers."""
    outputs, expected = ([maps] if isinstance(maps, Tensor) else maps for maps in (output, expected))
    tolerance = torch.finfo(expected[0].dtype).eps ** 0.5
    return all(
        bool(((a - b).abs().amax() <= tolerance * b.abs().amax()).item())
        for a, b in zip(outputs, expected, strict=True)
    )


def _find_pairs(network: nn.Module, example: Tensor) -> list[tuple[Any, Any]]:
    conv_outputs: list[tuple[Tensor, nn.Module]] = []
    pairs: list[tuple[Any, Any]] = []
    calls: list[nn.Module] = []

    def record_conv(conv, inputs, output) -> None:
        conv_outputs.append((output, conv))
        calls.append(conv)

    def record_norm(norm, inputs, output) -> None:
        pairs.extend((conv, norm) for conv_output, conv in conv_outputs if conv_output is inputs[0])
        calls.append(norm)

    hooks = [m.register_forward_hook(record_conv) for m in network.modules() if type(m) is nn.Conv2d]
    hooks += [m.register_forward_hook(record_norm) for m in network.modules() if _has_fixed_statistics(m)]
    try:
        with torch.no_grad():
            network(example)
    finally:
        for hook in hooks:
            hook.remove()
    return [(conv, norm) for conv, norm in pairs if calls.count(conv) == calls.count(norm) == 1]


def _has_fixed_statistics(module: nn.Module) -> bool:
    known = type(module) is nn.BatchNorm2d or type(module).__name__ == "BatchNormAct2d"
    return known and getattr(module, "running_mean", None) is not None
