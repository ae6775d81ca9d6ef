"""What vectors are made of: a whole pretrained network, its stem, or a trained network without its classifier."""

from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.models.backbone import Backbone
from spectral_vmamba.models.classifier import Classifier
from spectral_vmamba.models.invariant import InvariantModel
from spectral_vmamba.models.tokenizer import SpectralTokenizer
from spectral_vmamba.models.whole_network import build_whole_network, classify_maps
from spectral_vmamba.ops.frames import moment_orbit
from spectral_vmamba.ops.grid import Grid

FeatureKind = Literal["whole", "stem", "trained"]

# The vectors of the whole network; measured in docs/embedding.md. Stores record these numbers in the description.
_TURNS = 12
_SIDE = 0.8  # of the square that the network sees, relative to the diameter of the disk
_BLUR = 0.9  # pixels; rotating a file by interpolation blurs it: if every image is blurred, the difference is small
_CONFIDENCE = 0.25  # copies are weighted by the exponential of this times their largest logit
_FINER_WEIGHT = 0.7  # of the features of stride 16, relative to those of the last map


class Features(NamedTuple):
    vectors: Float[Tensor, "b v"]
    maps: Float[Tensor, "b c h w"] | None
    grid: Grid | None


class WholeFeatures(nn.Module):
    """Pooled maps of a whole pretrained network, averaged over turned copies: its last map, and that of stride 16.

    Turns start from the frame "moment", so that the copies of a rotated image are the same. Copies that the network's
    own classifier recognizes count more in the last map: photographs have an upright position, aerial images do not.
    """

    kind: FeatureKind = "whole"
    description = (
        f"pooled features of the whole pretrained network, strides 16 (weight {_FINER_WEIGHT}) and 32, averaged over "
        f"{_TURNS} turns from the frame moment (side {_SIDE}, blur {_BLUR}, confidence {_CONFIDENCE})"
    )

    def __init__(self, name: str):
        super().__init__()
        self.network = build_whole_network(name)
        self.length = self.network.channels + sum(self.network.finer_channels)

    def forward(self, images: Float[Tensor, "b rgb H W"], with_maps: bool) -> Features:
        if with_maps:
            raise ValueError(
                "the features 'whole' have no tokens: they are pooled over rotated copies of the image; omit --tokens "
                "(tokens=True), or add --features stem (features='stem')"
            )
        copies = moment_orbit(images, round(_SIDE * images.shape[-1]), _TURNS, _BLUR)
        finer, last = self.network.forward_maps(copies.flatten(0, 1))
        confidence = classify_maps(self.network, last).amax(1).view(_TURNS, -1, 1)
        weights = (_CONFIDENCE * confidence).softmax(0)
        coarse = (weights * _pool_each(last)).sum(0)
        parts = (F.normalize(coarse, dim=1), _FINER_WEIGHT * F.normalize(_pool_each(finer).mean(0), dim=1))
        return Features(torch.cat(parts, dim=1), None, None)

    @staticmethod
    def disk_size(side: int) -> int:
        """The diameter of the disk in pixels, for a network that sees a square of `side` pixels."""
        return round(side / _SIDE)


def _pool_each(maps: Float[Tensor, "kb c h w"]) -> Float[Tensor, "k b c"]:
    return maps.mean((-2, -1)).unflatten(0, (_TURNS, -1))


class StemFeatures(nn.Module):
    """The RFN features of a pretrained stem, pooled over the tokens: mean and standard deviation."""

    kind: FeatureKind = "stem"
    description = "mean and standard deviation of the pretrained stem's tokens"

    def __init__(self, tokenizer: SpectralTokenizer):
        super().__init__()
        self.tokenizer = tokenizer
        self.length = 2 * tokenizer.channels

    def forward(self, images: Float[Tensor, "b rgb H W"], with_maps: bool) -> Features:
        x, grid, frame = self.tokenizer.features(images)
        x = x.contiguous()
        # Same class among the 10 nearest of 1000 AID images: mean 56.5 %, with max 56.5 %, with std 58.0 %
        # (benchmarks/retrieval.py).
        parts = (x.mean(1), x.std(1, unbiased=False))
        vectors = torch.cat([F.normalize(part, dim=1) for part in parts], dim=1)
        if not with_maps:
            return Features(vectors, None, None)
        maps = grid.to_map(x)
        return Features(vectors, frame.undo(maps) if frame else maps, grid)


class NetworkFeatures(nn.Module):
    """The input of a trained network's classifier."""

    kind: FeatureKind = "trained"
    description = "pooled features of the trained network before its classifier"

    def __init__(self, network: Any):
        super().__init__()
        self.network = network
        self.length: int = getattr(network, "head_hidden_size", network.num_features)

    def forward(self, images: Float[Tensor, "b rgb H W"], with_maps: bool) -> Features:
        if not isinstance(self.network, Backbone):
            if with_maps:
                kind = type(self.network).__name__
                raise ValueError(f"expected a hierarchical network of this package for tokens, got {kind}")
            if isinstance(self.network, (Classifier, InvariantModel)):
                return Features(self.network.forward_pooled(images), None, None)
            return Features(self.network.forward_head(self.network.forward_features(images), True), None, None)
        if not with_maps:
            return Features(self.network.forward_pooled(images), None, None)
        tokens = self.network.forward_tokens(images)
        return Features(self.network.forward_head(tokens, pre_logits=True), tokens.maps(), tokens.traversal.grid)
