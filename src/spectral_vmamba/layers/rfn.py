"""RFN, the Rotational Feature Normalizer: F = max over r of R(−θr) · stem(R(θr) · I)."""

from math import gcd
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.layers.stems import images_per_chunk, pad_to_patches
from spectral_vmamba.ops.turns import rotate, turn

Rotations = Literal[4, 8, "random"] | None


class RotationalFeatureNormalizer(nn.Module):
    """Run the stem on turned copies of the image, turn the feature maps back and take their maximum.

    With the four quarter turns, F(R I) = R F(I) holds exactly for any stem and any image size, padding included:
    turning the image only permutes the four views. `rotations`:

    * 4: the paper's quarter turns.
    * 8: also the 45° steps, by bilinear interpolation. They are computed within each quarter turn, as part of the
      stem, so that quarter-turn equivariance stays exact.
    * "random": in training one angle from each of [0, 90], [91, 180], [181, 270], [271, 360] per call (the paper's
      supplement); the quarter turns in evaluation.
    * None: the bare stem, the paper's ablation.
    """

    def __init__(self, stem: nn.Module, patch_size: int, rotations: Rotations = 4):
        super().__init__()
        if rotations not in (4, 8, "random", None):
            raise ValueError(f"expected rotations 4, 8, 'random' or None, got {rotations!r}")
        self.stem = stem
        self.patch_size = patch_size
        self.rotations = rotations

    @property
    def passes(self) -> int:
        """How often the stem processes each image."""
        return {4: 4, 8: 8, "random": 4, None: 1}[self.rotations]

    def batch_multiple(self, height: int, width: int) -> int:
        """The batch size whose multiples a frozen stem splits into chunks of equal size."""
        turns = 1 if self.rotations is None else 4 if height == width else 2
        chunk = images_per_chunk(*(-(-side // self.patch_size) * self.patch_size for side in (height, width)))
        return chunk // gcd(chunk, turns)

    def forward(self, images: Float[Tensor, "b rgb H W"]) -> Float[Tensor, "b c h w"]:
        if self.rotations is None:
            return self._features(images)
        if self.rotations == "random" and self.training:
            return self._over_random_angles(images)
        return self._over_quarter_turns(images)

    def _features(self, images: Tensor) -> Tensor:
        return self.stem(pad_to_patches(images, self.patch_size))

    def _over_quarter_turns(self, images: Tensor) -> Tensor:
        batch = images.shape[0]
        stem = self._with_diagonal if self.rotations == 8 else self._features

        # The stem processes views of one shape as one batch: faster, and convolutions that round differently for a
        # batch of one never get one.
        def views(quarters: list[int]) -> list[Tensor]:
            maps = stem(torch.cat([turn(images, q) for q in quarters]))
            maps = maps.reshape(len(quarters), batch, *maps.shape[1:])
            return [turn(view, -q) for view, q in zip(maps, quarters, strict=True)]

        square = images.shape[-2] == images.shape[-1]
        maps = views([0, 1, 2, 3]) if square else views([0, 2]) + views([1, 3])
        return torch.stack(maps).amax(0)

    def _with_diagonal(self, images: Tensor) -> Tensor:
        upright = self._features(images)
        back, known = self._features_at(images, 45.0)
        return torch.where(known, torch.maximum(upright, back), upright)

    def _over_random_angles(self, images: Tensor) -> Tensor:
        lowest = torch.tensor([0.0, 91.0, 181.0, 271.0], device=images.device)
        highest = torch.tensor([90.0, 180.0, 270.0, 360.0], device=images.device)
        angles = lowest + (highest - lowest) * torch.rand(4, device=images.device)
        maps, known = zip(*(self._features_at(images, angle) for angle in angles), strict=True)
        largest = torch.stack([torch.where(k, m, -torch.inf) for m, k in zip(maps, known, strict=True)]).amax(0)
        return torch.where(torch.stack(known).any(0), largest, torch.stack(maps).amax(0))

    def _features_at(self, images: Tensor, degrees: float | Tensor) -> tuple[Tensor, Tensor]:
        """The features of the rotated image, rotated back, and a mask of those that the canvas did not cut off."""
        maps = rotate(self._features(rotate(images, degrees)), -degrees)
        known = rotate(torch.ones_like(maps[:1, :1]), -degrees) > 0.999
        return maps, known
