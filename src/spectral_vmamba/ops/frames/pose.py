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
        landscape = turn(maps, self.common)
        candidates = [turn(landscape, quarters) for quarters in range(0, 4, self.step)]
        turned = select_turn(candidates, self.own // self.step)
        return turned if self.rotation is None else rotate_each(turned, self.rotation)

    def undo(self, maps: Shaped[Tensor, "b c h w"]) -> Shaped[Tensor, "b c h2 w2"]:
        """Turn maps from the frame back into the position of the original images."""
        if self.rotation is not None:
            cos, sin = self.rotation.unbind(1)
            maps = rotate_each(maps, torch.stack([cos, -sin], dim=1))
        candidates = [turn(maps, -quarters) for quarters in range(0, 4, self.step)]
        return turn(select_turn(candidates, self.own // self.step), -self.common)

    def images(self, rows: slice) -> "Pose":
        """The pose of some images of the batch."""
        return replace(self, own=self.own[rows], rotation=None if self.rotation is None else self.rotation[rows])

    def to(self, device: torch.device | str) -> "Pose":
        rotation = None if self.rotation is None else self.rotation.to(device)
        return replace(self, own=self.own.to(device), rotation=rotation)


def select_turn(candidates: list[Tensor], index: Int[Tensor, "b"]) -> Tensor:
    """Take for each image of the batch one of the candidates."""
    image = torch.arange(index.shape[0], device=index.device)
    return torch.stack(candidates)[index, image]
