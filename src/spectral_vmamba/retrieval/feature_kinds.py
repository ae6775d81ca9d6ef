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
from spectral_vmamba.models.whole_network import build_whole_network
from spectral_vmamba.ops.frames import moment_square
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.turns import turn

FeatureKind = Literal["whole", "stem", "trained"]

# Pixels. Rotating a file by interpolation blurs it. If every image is blurred more than that, the difference is small.
_BLUR = 1.6


class Features(NamedTuple):
    vectors: Float[Tensor, "b v"]
    maps: Float[Tensor, "b c h w"] | None
    grid: Grid | None


class WholeFeatures(nn.Module):
    """The pooled last map of a whole pretrained network: of each feature the maximum over four quarter turns.

    The network sees the square inside the disk in the frame "moment". A square with the whole disk in it, and filled
    corners, gives worse neighbors (docs/embedding.md).
    """

    kind: FeatureKind = "whole"
    description = "pooled features of the whole pretrained network, maximum over quarter turns in the frame moment"

    def __init__(self, name: str):
        super().__init__()
        self.network = build_whole_network(name)
        self.length = self.network.channels

    def forward(self, images: Float[Tensor, "b rgb H W"], with_maps: bool) -> Features:
        if with_maps:
            raise ValueError(
                "the features 'whole' have no tokens: they are pooled over rotated copies of the image; omit --tokens "
                "(tokens=True), or add --features stem (features='stem')"
            )
        square = moment_square(images, _BLUR)
        pooled = self.network(torch.cat([turn(square, quarters) for quarters in range(4)])).mean((-2, -1))
        return Features(pooled.view(4, len(images), -1).amax(0), None, None)


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
