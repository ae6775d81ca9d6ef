"""Frames: the position of its own into which an image is turned before a network sees it.

* "quarter": the quarter turn whose values are lexicographically largest. Exact: the same bits for all quarter turns.
* "moment": then one rotation, after which the brightness centroid of the inscribed disk points up. The same position
  for every angle, up to interpolation; still the same bits for all quarter turns.
* "upright": then the rotation that a score, learned from upright images, prefers. It belongs to a network:
  `models.upright`.

A `Pose` is the turn that was applied; it converts feature maps between the two positions.
"""

from typing import Literal, get_args

from spectral_vmamba.ops.frames.moment import (
    brightness_direction,
    find_rotation,
    moment_frame,
    moment_orbit,
    rotate_further,
    rotate_sharply,
)
from spectral_vmamba.ops.frames.orbit import TurnPool, pool_over_turns, turned_copies
from spectral_vmamba.ops.frames.pose import Pose
from spectral_vmamba.ops.frames.quarter import canonical_quarters, canonical_turn, quarter_frame

Frame = Literal["none", "quarter", "moment", "upright"]
FRAMES: tuple[Frame, ...] = get_args(Frame)

__all__ = [
    "FRAMES",
    "Frame",
    "Pose",
    "TurnPool",
    "brightness_direction",
    "canonical_quarters",
    "canonical_turn",
    "find_rotation",
    "moment_frame",
    "moment_orbit",
    "pool_over_turns",
    "quarter_frame",
    "rotate_further",
    "rotate_sharply",
    "turned_copies",
]
