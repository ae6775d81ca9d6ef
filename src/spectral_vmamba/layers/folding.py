"""Folding BatchNorm into the convolution before it, for networks that are only ever evaluated."""

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
        assert norm.running_mean is not None and norm.running_var is not None
        scale = torch.rsqrt(norm.running_var + norm.eps)
        scale = scale if norm.weight is None else scale * norm.weight
        mean = norm.running_mean if self.bias is None else norm.running_mean - self.bias
        shift = -mean * scale if norm.bias is None else norm.bias - mean * scale
        return self._conv_forward(input, self.weight * scale[:, None, None, None], shift)


class FoldedNorm(nn.BatchNorm2d):
    """What is left of a BatchNorm: the activation of timm's BatchNormAct2d, else nothing."""

    def forward(self, input: Tensor) -> Tensor:
        return self.act(input) if hasattr(self, "act") else input


def fold_norms(network: nn.Module, example: Float[Tensor, "b c h w"]) -> None:
    """Let every convolution whose output goes to a BatchNorm do that one's work; in place, state dict unchanged.

    Which goes to which is seen on the example. A convolution class that does more than `nn.Conv2d` (padding computed
    from the input, say) is left alone, and so is anything called more than once.
    """
    for conv, norm in _pairs(network, example):
        conv.following = (norm,)
        conv.__class__, norm.__class__ = FoldedConv, FoldedNorm


def _pairs(network: nn.Module, example: Tensor) -> list[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    made_by: list[tuple[Tensor, nn.Conv2d]] = []
    pairs: list[tuple[nn.Conv2d, nn.BatchNorm2d]] = []

    def saw_conv(conv, inputs, output) -> None:
        made_by.append((output, conv))

    def saw_norm(norm, inputs, output) -> None:
        pairs.extend((conv, norm) for made, conv in made_by if made is inputs[0])

    hooks = [m.register_forward_hook(saw_conv) for m in network.modules() if type(m) is nn.Conv2d]
    hooks += [m.register_forward_hook(saw_norm) for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    try:
        with torch.no_grad():
            network(example)
    finally:
        for hook in hooks:
            hook.remove()
    modules = [module for pair in pairs for module in pair]
    calls = [conv for _, conv in made_by]
    return [p for p in pairs if modules.count(p[0]) == modules.count(p[1]) == calls.count(p[0]) == 1]
