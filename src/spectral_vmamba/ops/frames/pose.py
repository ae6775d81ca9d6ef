"""The turn that brought each image of a batch into its frame."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from spectral_vmamba.ops.turns import rotate_each, turn


@dataclass(frozen=True)
class Pose:
    """How a batch was turned: by `common` quarter turns all images, then by `own` quarter turns and a `rotation` each.

    Quarter turns are exact; the rotation, given by cosine and sine, is interpolated. None: no image was rotated.
    """

    common: int
    own: Int[Tensor, "b"]
    step: int  # own turns are multiples of this: 1 for square images, 2 (half turns) otherwise
    rotation: Float[Tensor, "b 2"] | None = None

    @property
    def is_exact(self) -> bool:
        """Whether `undo` restores every value."""
        return self.rotation is None

    def split(self) -> tuple["Pose", "Pose"]:
        """The rotation alone, and the quarter turns before it alone."""
        return Pose(0, torch.zeros_like(self.own), self.step, self.rotation), replace(self, rotation=None)

    def apply(self, maps: Shaped[Tensor, "b c h w"]) -> Shaped[Tensor, "b c h2 w2"]:
        """Turn maps from the position of the original images into the frame."""
        turned = turn_each(turn(maps, self.common), self.own, self.step)
        return turned if self.rotation is None else rotate_each(turned, self.rotation)

    def undo(self, maps: Shaped[Tensor, "b c h w"]) -> Shaped[Tensor, "b c h2 w2"]:
        """Turn maps from the frame back into the position of the original images."""
        if self.rotation is not None:
            cos, sin = self.rotation.unbind(1)
            maps = rotate_each(maps, torch.stack([cos, -sin], dim=1))
        return turn(turn_each(maps, -self.own % 4, self.step), -self.common)

    def images(self, rows: slice) -> "Pose":
        """The pose of some images of the batch."""
        return replace(self, own=self.own[rows], rotation=None if self.rotation is None else self.rotation[rows])

    def to(self, device: torch.device | str) -> "Pose":
        rotation = None if self.rotation is None else self.rotation.to(device)
        return replace(self, own=self.own.to(device), rotation=rotation)


def turn_each(maps: Shaped[Tensor, "b c h w"], quarters: Int[Tensor, "b"], step: int) -> Shaped[Tensor, "b c h w"]:
    """Turn each image by its own number of quarter turns: 0 to 3, multiples of `step`, which is 2 unless h equals w."""
    height, width = maps.shape[-2:]
    pixels = torch.arange(height * width, device=maps.device).view(height, width)
    sources = torch.stack([torch.rot90(pixels, number).flatten() for number in range(0, 4, step)])[quarters // step]
    return maps.flatten(2).gather(2, sources[:, None].expand(-1, maps.shape[1], -1)).view(maps.shape)
