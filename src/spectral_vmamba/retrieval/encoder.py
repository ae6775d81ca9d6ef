"""From pixels to vectors: the pretrained stem alone, or a trained network before its classifier."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference.network import preprocessing_of
from spectral_vmamba.inference.predictor import load
from spectral_vmamba.models import create_model
from spectral_vmamba.models.backbone import Backbone
from spectral_vmamba.models.tokenizer import SpectralTokenizer
from spectral_vmamba.models.variants import FAMILIES
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.turns import turn
from spectral_vmamba.utils.tensor_file import digest_of

# The network always sees so many images at once, the last ones repeated if need be: convolutions round differently
# for batches of other sizes, and a image's vector must not depend on who came with it.
PIECE = 8


class Features(NamedTuple):
    vectors: Float[Tensor, "b v"]
    maps: Float[Tensor, "b c h w"] | None
    grid: Grid | None


class StemFeatures(nn.Module):
    """The RFN's features of a pretrained stem, pooled over the tokens: their mean and their standard deviation."""

    told = "mean and standard deviation of the pretrained stem's tokens"

    def __init__(self, tokenizer: SpectralTokenizer):
        super().__init__()
        self.tokenizer = tokenizer
        self.length = 2 * tokenizer.channels

    def forward(self, images: Float[Tensor, "b rgb H W"], with_maps: bool) -> Features:
        x, grid, frame = self.tokenizer.features(images)
        x = x.contiguous()
        # Same class among the 10 nearest of 1000 images of AID: mean 56.5 %, with max 56.5 %, with std 58.0 %
        # (benchmarks/retrieval.py).
        parts = (x.mean(1), x.std(1, unbiased=False))
        vectors = torch.cat([F.normalize(part, dim=1) for part in parts], dim=1)
        if not with_maps:
            return Features(vectors, None, None)
        maps = grid.to_map(x)
        return Features(vectors, frame.undo(maps) if frame else maps, grid)


class TrainedFeatures(nn.Module):
    """What a trained network's classifier sees."""

    told = "pooled features of the trained network before its classifier"

    def __init__(self, network: Any):
        super().__init__()
        self.network = network
        self.length: int = getattr(network, "head_hidden_size", network.num_features)

    def forward(self, images: Float[Tensor, "b rgb H W"], with_maps: bool) -> Features:
        if not isinstance(self.network, Backbone):
            if with_maps:
                kind = type(self.network).__name__
                raise ValueError(f"expected a hierarchical network of this package for tokens, got {kind}")
            return Features(self.network.forward_head(self.network.forward_features(images), True), None, None)
        tokens = self.network.forward_tokens(images)
        vectors = self.network.forward_head(tokens.x, pre_logits=True)
        return Features(vectors, *((tokens.maps(), tokens.traversal.grid) if with_maps else (None, None)))


class Encoded(NamedTuple):
    """`tokens` in raster order of the images as they were given."""

    vectors: Float[np.ndarray, "n v"]
    tokens: Float[np.ndarray, "n l c"] | None


@dataclass(frozen=True, eq=False)
class Encoder:
    name: str
    features: StemFeatures | TrainedFeatures
    preprocessing: Preprocessing
    device: torch.device

    def encode(self, pixels: Sequence[UInt8[Tensor, "3 H W"]], quarters: Sequence[int], tokens: bool) -> Encoded:
        """`quarters`: how far each image was turned before it became these pixels."""
        pieces = [
            self._piece(pixels[i : i + PIECE], quarters[i : i + PIECE], tokens) for i in range(0, len(pixels), PIECE)
        ]
        parts = [torch.cat([piece[part] for piece in pieces]) for part in range(1 + tokens)]
        return Encoded(parts[0].numpy(), parts[1].half().numpy() if tokens else None)

    def token_layout(self) -> tuple[Int[np.ndarray, "l 2"], int]:
        """Row and column of every token, on a grid over the middle square of the image; channels of tokens."""
        size = self.preprocessing.size
        noise = torch.randint(256, (PIECE, 3, size, size), generator=torch.Generator().manual_seed(0))
        _, maps, grid = self._features(noise.to(torch.uint8), True)
        assert maps is not None
        assert grid is not None
        cells = np.stack(np.divmod(grid.numbers("cells"), grid.width), axis=1)
        return cells.astype(np.int16), maps.shape[1]

    def weights(self) -> str:
        """A checksum of everything that was learned."""
        return digest_of(self.features.state_dict())

    @property
    def quarter_turns_change_nothing(self) -> bool:
        return self.preprocessing.canonical

    def _features(self, pixels: UInt8[Tensor, "b 3 H W"], with_maps: bool) -> Features:
        with torch.inference_mode():
            inputs = normalize(pixels.to(self.device), self.preprocessing.mean, self.preprocessing.std)
            return self.features(inputs, with_maps)

    def _piece(self, pixels: Sequence[Tensor], quarters: Sequence[int], tokens: bool) -> tuple[Tensor, ...]:
        filled = torch.stack([*pixels, *[pixels[-1]] * (PIECE - len(pixels))])
        vectors, maps, grid = self._features(filled, tokens)
        vectors = F.normalize(vectors.float(), dim=1)[: len(pixels)].cpu().clone()
        if maps is None or grid is None:
            return (vectors,)
        given = torch.cat([turn(one[None], -back) for one, back in zip(maps, quarters, strict=False)])
        return vectors, grid.from_map(given).cpu().clone()


def build_encoder(model: str, checkpoint: str | None, image_size: int | None, device: str) -> Encoder:
    if checkpoint is None:
        name, features, preprocessing = model, *_stem(model)
    else:
        predictor = load(checkpoint, device=device)
        name, features, preprocessing = predictor.name, TrainedFeatures(predictor.model), predictor.preprocessing
    if image_size is not None:
        preprocessing = replace(preprocessing, size=image_size)
    return Encoder(name, features.to(device).eval(), preprocessing, torch.device(device))


def _stem(model: str) -> tuple[StemFeatures, Preprocessing]:
    if model not in FAMILIES["Spectral VMamba"]:
        family = ", ".join(FAMILIES["Spectral VMamba"])
        raise ValueError(f"expected a Spectral VMamba ({family}) where no --checkpoint is given, got {model!r}")
    network: Any = create_model(model, num_classes=0, stem_weights="required")
    if network.config.stem == "conv":
        raise ValueError(
            f"{model} has no pretrained stem, so that its vectors would mean nothing; train it and name the run by "
            f"--checkpoint, or leave --model out for spectral_vmamba_lite"
        )
    return StemFeatures(network.tokenizer), preprocessing_of(network)
