"""Networks of about a million parameters that differ from `spectral_vmamba_nano` in one thing, or in several.

What is not an option of the package is a prototype here, put in the place of a layer.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from spectral_vmamba.layers import Downsample, IsotropicConv, RotationalFeatureNormalizer, S6Mixer
from spectral_vmamba.layers.downsample import ConvDownsample, max_pool
from spectral_vmamba.layers.stems import ChannelNorm
from spectral_vmamba.models import create_model
from spectral_vmamba.models.classifier import init_linear
from spectral_vmamba.ops.traversal import Traversal

Change = Callable[[Any], None]


class DeepStem(nn.Sequential):
    """To each width one 3×3 convolution of stride 2, then `depth` residual ones."""

    def __init__(self, widths: Sequence[int], depth: int, in_chans: int = 3):
        layers: list[nn.Module] = []
        for narrow, wide in pairwise((in_chans, *widths)):
            layers += [nn.Conv2d(narrow, wide, 3, 2, 1), ChannelNorm(wide), nn.GELU()]
            layers += [Residual(nn.Conv2d(wide, wide, 3, 1, 1), ChannelNorm(wide), nn.GELU()) for _ in range(depth)]
        super().__init__(*layers)
        self.channels = widths[-1]
        self.finer_channels = ()


class Residual(nn.Sequential):
    def forward(self, input: Tensor) -> Tensor:
        return input + super().forward(input)


class PoolBoth(RotationalFeatureNormalizer):
    """The maximum and the mean over the turns, next to each other."""

    def _pool(self, views: list[Tensor]) -> Tensor:
        stacked = torch.stack(views)
        return torch.cat([stacked.amax(0), stacked.sort(dim=0).values.mean(0)], dim=1)


class GatedMixer(nn.Module):
    """The output of a mixer, multiplied by a gate of its input, as in Mamba."""

    def __init__(self, mixer: S6Mixer):
        super().__init__()
        self.mixer = mixer
        inner, width = mixer.in_proj.weight.shape
        self.gate = nn.Linear(width, inner, bias=False)
        init_linear(self.gate)

    def forward(self, x: Float[Tensor, "b l c"], traversal: Traversal) -> Float[Tensor, "b l c"]:
        mixer = self.mixer
        inner = mixer.in_proj(x)
        if mixer.local_mixing is not None:
            inner = mixer.local_mixing(inner, traversal.grid)
        y = mixer.s6(F.silu(inner), traversal.orders)
        return mixer.out_proj(mixer.out_norm(y) * F.silu(self.gate(x)))


class ConvMlp(nn.Module):
    """An MLP with a symmetric depthwise convolution between its layers."""

    def __init__(self, mlp: Any):
        super().__init__()
        self.widen, self.narrow = mlp[0], mlp[2]
        self.conv = IsotropicConv(mlp[0].out_features)

    def forward(self, x: Float[Tensor, "b l c"], traversal: Traversal) -> Float[Tensor, "b l c"]:
        hidden = self.widen(x)
        return self.narrow(F.gelu(hidden + self.conv(hidden, traversal.grid)))


class MixingDownsample(Downsample):
    """A symmetric depthwise convolution before the max-pool."""

    def __init__(self, width: int, new_width: int, halve: bool = True):
        super().__init__(width, new_width, halve)
        self.conv = IsotropicConv(new_width)

    def pool(self, x: Float[Tensor, "b l c"], traversal: Traversal) -> tuple[Float[Tensor, "b l_half c2"], Traversal]:
        return max_pool(x + self.conv(x, traversal.grid), traversal)


def with_stem(widths: Sequence[int], depth: int) -> Change:
    def change(model: Any) -> None:
        _replace_stem(model, DeepStem(widths, depth))

    return change


def _replace_stem(model: Any, stem: DeepStem) -> None:
    model.tokenizer.rfn.stem = stem
    _project_from(model, stem.channels)


def _project_from(model: Any, channels: int) -> None:
    width = model.config.widths[0]
    model.project = nn.Identity() if channels == width else nn.Linear(channels, width)
    model.project.apply(init_linear)


def pool_both(model: Any) -> None:
    model.tokenizer.rfn.__class__ = PoolBoth
    _project_from(model, 2 * model.tokenizer.rfn.stem.channels)


def gated(model: Any) -> None:
    for block in _blocks(model):
        block.mixer = GatedMixer(block.mixer)


def conv_mlp(model: Any) -> None:
    for block in _blocks(model):
        block.mlp = ConvMlp(block.mlp)
        block.forward = _with_grid(block)


def _with_grid(block: Any) -> Callable[[Tensor, Traversal], Tensor]:
    def forward(x: Tensor, traversal: Traversal) -> Tensor:
        x = x + block.mixer(block.mixer_norm(x), traversal)
        return x + block.mlp(block.mlp_norm(x), traversal)

    return forward


def downsample_by(kind: Callable[[int, int], nn.Module]) -> Change:
    def change(model: Any) -> None:
        for stage in list(model.stages)[1:]:
            widen: Any = stage.downsample.widen
            stage.downsample = kind(widen.in_features, widen.out_features)

    return change


def _blocks(model: Any) -> list[Any]:
    return [block for stage in model.stages for block in stage.blocks]


NANO = "spectral_vmamba_nano"
# name → (registered model, its options, changes of its layers)
CANDIDATES: Mapping[str, tuple[str, dict[str, Any], tuple[Change, ...]]] = {
    "nano": (NANO, {}, ()),
    "VMamba, no frame": ("vmamba_nano", {}, ()),
    "VMamba, quarter frame": ("vmamba_nano", {"frame": "quarter"}, ()),
    # stems
    "stem 24+48, depth 1": (NANO, {}, (with_stem((24, 48), 1),)),
    "stem 48+96, depth 0": (NANO, {}, (with_stem((48, 96), 0),)),
    "stem 32+64, depth 1": (NANO, {}, (with_stem((32, 64), 1),)),
    "stem 32+64, depth 2": (NANO, {}, (with_stem((32, 64), 2),)),
    "stem 48+96, depth 1": (NANO, {}, (with_stem((48, 96), 1),)),
    "stem 32+64+128, patch 8, depth 1": (
        NANO,
        {"patch_size": 8, "widths": (96, 192), "depths": (3, 1)},
        (with_stem((32, 64, 128), 1),),
    ),
    # RFN
    "RFN by mean": (NANO, {"turn_pool": "mean"}, ()),
    "RFN by maximum and mean": (NANO, {}, (pool_both,)),
    "RFN of 8 turns": (NANO, {"turns": 8}, ()),
    "no RFN": (NANO, {"turns": 1}, ()),
    # mixing
    "5×5 mixing": (NANO, {"local_kernel": 5}, ()),
    "depthwise mixing": (NANO, {"local_mixing": "depthwise"}, ()),
    "gated": (NANO, {"expand": 1.5}, (gated,)),
    "convolution in the MLP": (NANO, {}, (conv_mlp,)),
    "mixing before the max-pool": (NANO, {}, (downsample_by(MixingDownsample),)),
    "strided convolution": (NANO, {}, (downsample_by(ConvDownsample),)),
    # orders
    "random orders": (NANO, {"traversal": "random"}, ()),
    "raster orders": (NANO, {"traversal": "cross"}, ()),
    "two eigenvectors": (NANO, {"eigenvectors": 2}, ()),
    "shared directions": (NANO, {"share_directions": True}, ()),
    "all neighbors": (NANO, {"neighbors": "none"}, ()),
    # position and domain
    "radius embedding": (NANO, {"radius_embedding": True}, ()),
    "disk": (NANO, {"domain": "disk"}, ()),
    "frame moment": (NANO, {"frame": "moment"}, ()),
}


def build(name: str, classes: int) -> nn.Module:
    model, options, changes = CANDIDATES[name]
    network = create_model(model, num_classes=classes, **options)
    for change in changes:
        change(network)
    return network
