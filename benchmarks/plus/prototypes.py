"""Layers that are not options of the package, put in the place of others in a network that was built."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from spectral_vmamba.layers import Downsample, IsotropicConv, RotationalFeatureNormalizer, S6Mixer
from spectral_vmamba.layers.downsample import max_pool
from spectral_vmamba.layers.stems import ChannelNorm
from spectral_vmamba.models.classifier import init_linear
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.ranks import tied_ranks
from spectral_vmamba.ops.traversal import Traversal
from spectral_vmamba.ops.turns import turn

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


class MixedTurns(RotationalFeatureNormalizer):
    """RFN that mixes the features of the turned copies after every level of the stem, before the maximum.

    Copy q takes a linear map of all four, in their order around the circle from q on: features that compare
    orientations. Turning the image permutes the copies, as in RFN, so that the result stays equivariant. Square images.
    """

    def __init__(self, levels: Sequence[nn.Module], widths: Sequence[int], patch_size: int):
        super().__init__(nn.Sequential(*levels), patch_size)
        self.mixes = nn.ModuleList(
            nn.Sequential(nn.Conv2d(4 * width, width, 1), ChannelNorm(width), nn.GELU()) for width in widths
        )

    def forward(self, images: Float[Tensor, "b rgb H W"]) -> Float[Tensor, "b c h w"]:
        views = torch.cat([turn(images, quarters) for quarters in range(4)])
        levels: Any = self.stem
        for level, mix in zip(levels, self.mixes, strict=True):
            views = level(views)
            maps = _turn_back(views)
            around = [torch.cat([turn(maps[(q + step) % 4], q) for step in range(4)], dim=1) for q in range(4)]
            views = views + mix(torch.cat(around))
        return self._pool(_turn_back(views))


def _turn_back(views: Float[Tensor, "b4 c h w"]) -> list[Tensor]:
    return [turn(view, -quarters) for quarters, view in enumerate(views.chunk(4))]


def with_mixed_turns(widths: Sequence[int], depth: int) -> Change:
    def change(model: Any) -> None:
        pairs = pairwise((model.in_chans, *widths))
        levels = [DeepStem((wide,), depth, narrow) for narrow, wide in pairs]
        model.tokenizer.rfn = MixedTurns(levels, widths, model.config.patch_size)
        _project_from(model, widths[-1])

    return change


def reflect_padding(model: Any) -> None:
    """In the convolutions of the stem: with zeros, the features of border patches differ from all others."""
    for module in model.tokenizer.rfn.stem.modules():
        if isinstance(module, nn.Conv2d):
            module.padding_mode = "reflect"


def with_radial_path(model: Any) -> None:
    """The last eigenvector is replaced by the distance from the center."""
    tokenizer = model.tokenizer
    spectral = tokenizer.traverse

    def traverse(tokens: Float[Tensor, "b l c"], grid: Grid) -> Traversal:
        found = spectral(tokens, grid)
        radial = tied_ranks(grid.squared_radii().to(tokens.device)[None]).expand(len(tokens), 1, -1)
        return Traversal.from_ranks(grid, torch.cat([found.ranks[:, :-1], radial], dim=1), found.content)

    tokenizer.traverse = traverse


def with_places(weight: float) -> Change:
    """The affinity also depends on how far patches lie apart, `weight` times as much as on their features."""

    def change(model: Any) -> None:
        tokenizer = model.tokenizer
        spectral = tokenizer.traverse

        def traverse(tokens: Float[Tensor, "b l c"], grid: Grid) -> Traversal:
            features = tokens.detach()
            sides = (torch.arange(side) - (side - 1) / 2 for side in (grid.height, grid.width))
            places = torch.stack(torch.meshgrid(*sides, indexing="ij"))[None].to(features)
            places = grid.from_map(places).expand(len(tokens), -1, -1)  # from the center: turns keep their lengths
            scale = _mean_distance(features) / _mean_distance(places)
            return spectral(torch.cat([features, weight * scale * places], dim=-1), grid)

        tokenizer.traverse = traverse

    return change


def _mean_distance(points: Float[Tensor, "b l c"]) -> Float[Tensor, "b 1 1"]:
    return torch.cdist(points, points).mean((1, 2), keepdim=True)


def with_rank_embedding(model: Any) -> None:
    """Embed how far each token is from the middle of each order: independent of the signs of the eigenvectors."""
    model.rank_embedding = nn.Linear(model.config.eigenvectors, model.config.widths[0], bias=False)
    init_linear(model.rank_embedding)
    tokenize = model.tokenize

    def embed(inputs: Any) -> Any:
        found = tokenize(inputs)
        ranks = found.traversal.ranks.mT.to(found.x.dtype)
        distances = (2 * ranks / ranks.amax(1, keepdim=True).clamp_min(1) - 1).abs()
        return found._replace(x=found.x + model.rank_embedding(distances))

    model.tokenize = embed
