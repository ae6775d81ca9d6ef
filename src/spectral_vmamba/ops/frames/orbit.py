"""Turned copies of images, and pooling over them."""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.ops.turns import mask_outside_disk, rotate, turn

TurnPool = Literal["max", "mean"]


def turned_copies(images: Float[Tensor, "b c h w"], turns: int) -> list[Float[Tensor, "b c _ _"]]:
    """Copies of the images, turned in steps of 360° / `turns`.

    Quarter turns are exact. Angles between them are bilinear, and then every copy is limited to the inscribed disk.
    Turning the images by quarter turns only permutes the copies, up to rounding of the interpolation.
    """
    if turns < 1 or (turns > 2 and turns % 4):
        raise ValueError(f"expected 1, 2 or a multiple of 4 turns, got {turns}")
    if turns <= 4:
        return [turn(images, quarters) for quarters in range(0, 4, 4 // turns)]
    disks = mask_outside_disk(images)
    between = [mask_outside_disk(rotate(disks, 360 / turns * i)) for i in range(turns // 4)]
    return [turn(copy, quarters) for quarters in range(4) for copy in between]


def pool_over_turns(
    features: Callable[[Float[Tensor, "n c h w"]], Float[Tensor, "n f"]],
    images: Float[Tensor, "b c h w"],
    turns: int,
    pool: TurnPool,
) -> Float[Tensor, "b f"]:
    """Pool the features of the turned copies of each image. Copies of one shape pass through `features` as a batch."""
    copies = turned_copies(images, turns)
    upright, sideways = ([copy for copy in copies if (copy.shape == images.shape) == same] for same in (True, False))
    groups = [group for group in (upright, sideways) if group]
    values = torch.cat([features(torch.cat(group)).unflatten(0, (len(group), -1)) for group in groups])
    # Sums depend on the order of the copies in the last bits: they are added in the order of their values.
    return values.amax(0) if pool == "max" else values.sort(dim=0).values.mean(0)
