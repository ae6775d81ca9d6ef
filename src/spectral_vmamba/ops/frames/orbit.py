"""Turned copies of images, and pooling over them."""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.ops.turns import mask_outside_disk, rotate, turn

TurnPool = Literal["max", "mean"]


def turned_copies(images: Float[Tensor, "b c h w"], turns: int) -> Float[Tensor, "t b c s s"]:
    """Copies of the images, turned in steps of 360° / `turns`, on a square canvas.

    Quarter turns are exact. Angles between them are bilinear, and then every copy is limited to the inscribed disk.
    Turning the images by quarter turns only permutes the copies, up to rounding of the interpolation. Images that are
    not square are padded with zeros.
    """
    if turns < 1 or (turns > 2 and turns % 4):
        raise ValueError(f"expected 1, 2 or a multiple of 4 turns, got {turns}")
    if turns == 1:
        return images[None]
    square = _pad_to_square(images)
    if turns <= 4:
        return torch.stack([turn(square, quarters) for quarters in range(0, 4, 4 // turns)])
    between = [rotate(mask_outside_disk(square), 360 / turns * i) for i in range(turns // 4)]
    return torch.stack([turn(mask_outside_disk(copy), quarters) for quarters in range(4) for copy in between])


def pool_over_turns(
    features: Callable[[Float[Tensor, "n c h w"]], Float[Tensor, "n f"]],
    images: Float[Tensor, "b c h w"],
    turns: int,
    pool: TurnPool,
) -> Float[Tensor, "b f"]:
    """Pool the features of the turned copies of each image. All copies pass through `features` as one batch."""
    copies = turned_copies(images, turns)
    if turns == 1:
        return features(copies[0])
    values = features(copies.flatten(0, 1)).unflatten(0, copies.shape[:2])
    # Sums depend on the order of the copies in the last bits: they are added in the order of their values.
    return values.amax(0) if pool == "max" else values.sort(dim=0).values.mean(0)


def _pad_to_square(images: Tensor) -> Tensor:
    height, width = images.shape[-2:]
    missing_rows, missing_columns = max(width - height, 0), max(height - width, 0)
    top, left = missing_rows // 2, missing_columns // 2
    return F.pad(images, (left, missing_columns - left, top, missing_rows - top))
