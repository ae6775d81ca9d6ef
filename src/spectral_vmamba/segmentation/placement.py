"""The frame of a segmentation network: the whole image in its position, and how to turn masks back.

Unlike a classifier's frame, it keeps the corners: a rotated image has a canvas that contains all of it.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from spectral_vmamba.models.upright import Stem, UprightScore
from spectral_vmamba.ops.frames import Frame, Pose, brightness_direction, quarter_frame, rotate_sharply
from spectral_vmamba.ops.turns import mask_outside_disk, rotated_positions, sample, turn


class Placement(NamedTuple):
    """How images were turned into the frame: the quarter turns of `pose`, then a rotation, by cosine and sine, onto a
    larger canvas; None for no rotation. `size` is the height and width before the rotation.

    `half_turns` and `quarter_turns` tell which images equal their own turns: the frame cannot tell these apart.
    """

    pose: Pose | None
    rotation: Float[Tensor, "b 2"] | None
    size: tuple[int, int]
    half_turns: Bool[Tensor, "b"] | None = None
    quarter_turns: Bool[Tensor, "b"] | None = None

    def undo(self, maps: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Turn maps of the frame's canvas, one value per pixel, back into the position and size of the images.

        The maps of an image that equals its own turns are averaged over these: they would not turn with it otherwise.
        """
        if self.rotation is not None:
            cos, sin = self.rotation.unbind(1)
            back = torch.stack([cos, -sin], dim=1)
            maps = sample(maps, rotated_positions(maps, back, self.size))
        return maps if self.pose is None else self.pose.undo(self._average_equal_turns(maps))

    def _average_equal_turns(self, maps: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        if self.half_turns is None or not (torch.compiler.is_compiling() or self.half_turns.any()):
            return maps
        both = (maps + turn(maps, 2)) / 2
        maps = torch.where(self.half_turns[:, None, None, None], both, maps)
        if self.quarter_turns is None:
            return maps
        # The mean over half turns is its own half turn: two summands again, whose order does not matter.
        return torch.where(self.quarter_turns[:, None, None, None], (both + turn(both, 1)) / 2, maps)


def place(
    images: Float[Tensor, "b c h w"], frame: Frame, upright: UprightScore | None = None, stem: Stem | None = None
) -> tuple[Float[Tensor, "b c h2 w2"], Placement]:
    """Turn images into a frame. The frame upright requires its score and the stem that the score sees.

    All quarter turns of an image give the same bits. Beyond the edges of a rotated image, its canvas is zero.
    """
    height, width = images.shape[-2:]
    if frame == "none":
        return images, Placement(None, None, (height, width))
    # Of the whole image: its disk may be symmetric where the image is not.
    turned, pose = quarter_frame(images)
    height, width = turned.shape[-2:]
    half_turns = _equal_own_turn(turned, 2)
    quarter_turns = _equal_own_turn(turned, 1) if height == width else None
    placement = Placement(pose, None, (height, width), half_turns, quarter_turns)
    if frame == "quarter":
        return turned, placement
    if frame == "moment":
        rotation = brightness_direction(turned).flip(1)  # from the direction (right, up) to (0, 1)
    else:
        if upright is None or stem is None:
            raise ValueError("the frame upright requires a network with a frozen pretrained stem")
        rotation = upright.rotations(mask_outside_disk(turned), stem)
    side = math.ceil(math.hypot(height, width))
    return rotate_sharply(turned, rotation, (side, side)), placement._replace(rotation=rotation)


def _equal_own_turn(images: Float[Tensor, "b c h w"], quarters: int) -> Bool[Tensor, "b"]:
    return (images == turn(images, quarters)).flatten(1).all(1)
