"""RFN, the Rotational Feature Normalizer: F = max over r of R(−θr) · stem(R(θr) · I)."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import gcd, isfinite
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.layers.stems import images_per_chunk, pad_to_patches
from spectral_vmamba.ops.frames.orbit import TurnPool
from spectral_vmamba.ops.turns import rotate, turn

Turns = Literal[1, 4, 8, "random"] | tuple[float, ...]
Stem = Callable[[Tensor], list[Tensor]]  # from images to maps of one or more strides


def check_turns(turns: Any) -> None:
    if isinstance(turns, tuple):
        angles = {angle % 360 for angle in turns if isinstance(angle, (int, float)) and isfinite(angle)}
        if not turns or len(angles) < len(turns):
            raise ValueError(f"expected one or more different angles in degrees, got {turns}")
    elif turns not in (1, 4, 8, "random"):
        raise ValueError(f"expected turns 1, 4, 8, 'random' or a tuple of angles, got {turns!r}")


def are_quarter_turns(turns: Turns) -> bool:
    """Whether RFN with these turns is equivariant to quarter turns: it has 0° and all quarter turns of each angle.

    >>> are_quarter_turns(4), are_quarter_turns(1), are_quarter_turns((0, 90, 180, 270)), are_quarter_turns((0, 30))
    (True, False, True, False)
    """
    if not isinstance(turns, tuple):
        return turns != 1
    angles = {angle % 360 for angle in turns}
    return 0 in angles and all((angle + 90) % 360 in angles for angle in angles)


class RotationalFeatureNormalizer(nn.Module):
    """Run the stem on turned copies of the image, turn the feature maps back and pool them.

    With the four quarter turns, F(R I) = R F(I) holds exactly for any stem and any image size, padding included:
    turning the image only permutes the four views. `turns`:

    * 4: the paper's quarter turns.
    * 8: also the 45° steps, by bilinear interpolation. They are computed within each quarter turn, as part of the
      stem, so that quarter-turn equivariance stays exact.
    * a tuple of angles in degrees: as 8, if it contains 0° and, for each angle, its three quarter turns; otherwise each
      angle by interpolation, which is not equivariant.
    * "random": in training one angle from each of [0, 90], [91, 180], [181, 270], [271, 360] per call (the paper's
      supplement); the quarter turns in evaluation.
    * 1: the bare stem, the paper's ablation.

    `pool` is the maximum, as in the paper, or the mean.
    """

    def __init__(self, stem: nn.Module, patch_size: int, turns: Turns = 4, pool: TurnPool = "max"):
        super().__init__()
        check_turns(turns)
        if pool not in ("max", "mean"):
            raise ValueError(f"expected the pool max or mean, got {pool!r}")
        self.stem = stem
        self.patch_size = patch_size
        self.turns: Turns = turns
        self.pool = pool

    @property
    def passes(self) -> int:
        """How often the stem processes each image."""
        if isinstance(self.turns, tuple):
            return len(self.turns)
        return self.turns if isinstance(self.turns, int) else 4

    def batch_multiple(self, height: int, width: int) -> int:
        """The batch size whose multiples a frozen stem splits into chunks of equal size."""
        turns = 1 if not are_quarter_turns(self.turns) else 4 if height == width else 2
        chunk = images_per_chunk(*(-(-side // self.patch_size) * self.patch_size for side in (height, width)))
        return chunk // gcd(chunk, turns)

    def forward(self, images: Float[Tensor, "b rgb H W"]) -> Float[Tensor, "b c h w"]:
        return self._over_turns(images, lambda views: [self.stem(views)])[0]

    def bare_features(self, images: Float[Tensor, "b rgb H W"]) -> Float[Tensor, "b c h w"]:
        """The stem's map of one copy of each image, as it is."""
        return self.stem(pad_to_patches(images, self.patch_size))

    def forward_maps(self, images: Float[Tensor, "b rgb H W"]) -> list[Float[Tensor, "b _ _ _"]]:
        """Normalize all maps of the stem's `forward_maps`, of strides 2 or 4 to the patch size: the last is that of
        `forward`. They cover the image padded to whole patches."""
        stem: Any = self.stem
        return self._over_turns(images, stem.forward_maps)

    def _over_turns(self, images: Tensor, stem: Stem) -> list[Tensor]:
        if self.turns == 1:
            return self._features(images, stem)
        if self.turns == "random" and self.training:
            return self._over_angles(images, _draw_angles(images.device), stem)
        if isinstance(self.turns, tuple) and not are_quarter_turns(self.turns):
            return self._over_angles(images, self.turns, stem)
        return self._over_quarter_turns(images, stem)

    def _features(self, images: Tensor, stem: Stem) -> list[Tensor]:
        return stem(pad_to_patches(images, self.patch_size))

    def _over_quarter_turns(self, images: Tensor, stem: Stem) -> list[Tensor]:
        batch = images.shape[0]
        features = self._at_offsets if self._offsets() else self._features

        # The stem processes views of one shape as one batch: faster, and convolutions that round differently for a
        # batch of one never get one.
        def views(quarters: list[int]) -> list[list[Tensor]]:
            """For each stride, the maps of all views, turned back."""
            levels = features(torch.cat([turn(images, q) for q in quarters]), stem)
            levels = [maps.reshape(len(quarters), batch, *maps.shape[1:]) for maps in levels]
            return [[turn(view, -q) for view, q in zip(maps, quarters, strict=True)] for maps in levels]

        square = images.shape[-2] == images.shape[-1]
        parts = [views([0, 1, 2, 3])] if square else [views([0, 2]), views([1, 3])]
        return [self._pool(list(chain(*level))) for level in zip(*parts, strict=True)]

    def _offsets(self) -> list[float]:
        """The angles between the quarter turns, below 90°."""
        if isinstance(self.turns, tuple):
            return sorted({angle % 90 for angle in self.turns} - {0})
        return [45.0] if self.turns == 8 else []

    def _at_offsets(self, images: Tensor, stem: Stem) -> list[Tensor]:
        """The features of the image as it is, pooled with those of the angles between the quarter turns."""
        upright = [(maps, torch.ones_like(maps[:1, :1]) > 0) for maps in self._features(images, stem)]
        between = [self._features_at(images, angle, stem) for angle in self._offsets()]
        return [self._pool_known(level) for level in zip(upright, *between, strict=True)]

    def _pool(self, views: list[Tensor]) -> Tensor:
        """Pool views in an order of their values, where it matters: sums would depend on the order of the views."""
        stacked = torch.stack(views)
        return stacked.amax(0) if self.pool == "max" else stacked.sort(dim=0).values.mean(0)

    def _over_angles(self, images: Tensor, angles: Iterable[float | Tensor], stem: Stem) -> list[Tensor]:
        views = [self._features_at(images, angle, stem) for angle in angles]
        return [self._pool_known(level) for level in zip(*views, strict=True)]

    def _features_at(self, images: Tensor, degrees: float | Tensor, stem: Stem) -> list[tuple[Tensor, Tensor]]:
        """For each stride, the features of the rotated image, rotated back, and a mask of those that the canvas did not
        cut off."""
        levels = [rotate(maps, -degrees) for maps in self._features(rotate(images, degrees), stem)]
        return [(maps, rotate(torch.ones_like(maps[:1, :1]), -degrees) > 0.999) for maps in levels]

    def _pool_known(self, views: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Pool maps over those views that know the cell; over all views where none does."""
        maps, known = (torch.stack(part) for part in zip(*views, strict=True))
        counted = known | ~known.any(0)
        if self.pool == "max":
            return torch.where(counted, maps, -torch.inf).amax(0)
        return torch.where(counted, maps, 0.0).sum(0) / counted.sum(0)


def _draw_angles(device: torch.device) -> Tensor:
    """One angle of each quarter of the circle, as the paper's supplement draws them."""
    lowest = torch.tensor([0.0, 91.0, 181.0, 271.0], device=device)
    highest = torch.tensor([90.0, 180.0, 270.0, 360.0], device=device)
    return lowest + (highest - lowest) * torch.rand(4, device=device)
