"""The frame of a segmentation network: the whole image in its position, and how to turn masks back.

Unlike a classifier's frame, it keeps the corners: a rotated image has a canvas that contains all of it.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.models.upright import Stem, UprightScore
from spectral_vmamba.ops.frames import Frame, Pose, find_rotation, quarter_frame, rotate_sharply
from spectral_vmamba.ops.turns import mask_outside_disk, rotated_positions, sample


class Placement(NamedTuple):
    """How images were turned into the frame: the quarter turns of `pose`, then a rotation, by cosine and sine, onto a
    larger canvas; None for no rotation. `size` is the height and width before the rotation."""

    pose: Pose | None
    rotation: Float[Tensor, "b 2"] | None
    size: tuple[int, int]

    def undo(self, maps: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Turn maps of the frame's canvas, one value per pixel, back into the position and size of the images."""
        if self.rotation is not None:
            cos, sin = self.rotation.unbind(1)
            back = torch.stack([cos, -sin], dim=1)
            maps = sample(maps, rotated_positions(maps, back, self.size))
        return maps if self.pose is None else self.pose.undo(maps)


def place(
    images: Float[Tensor, "b c h w"], frame: Frame, upright: UprightScore | None = None, stem: Stem | None = None
) -> tuple[Float[Tensor, "b c h2 w2"], Placement]:
    """Turn images into a frame. The frame upright requires its score and the stem that the score sees.

    All quarter turns of an image give the same bits. Beyond the edges of a rotated image, its canvas is zero.
    """
    if frame == "none":
        return images, Placement(None, None, (images.shape[-2], images.shape[-1]))
    if frame == "quarter":
        turned, pose = quarter_frame(images)
        return turned, Placement(pose, None, (turned.shape[-2], turned.shape[-1]))
    if frame == "moment":
        _, pose, rotation = find_rotation(images)
    else:
        if upright is None or stem is None:
            raise ValueError("the frame upright requires a network with a frozen pretrained stem")
        disk, pose = quarter_frame(mask_outside_disk(images))
        rotation = upright.rotations(disk, stem)
    turned = pose.apply(images)
    height, width = turned.shape[-2:]
    side = math.ceil(math.hypot(height, width))
    return rotate_sharply(turned, rotation, (side, side)), Placement(pose, rotation, (height, width))
