"""What preprocessing returns: the pixels that a network sees of an image, and how they were turned."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from spectral_vmamba.ops.frames import Pose


class View(NamedTuple):
    """The pixels, 0 to 255, that a network sees of an image.

    `quarters` are the quarter turns, and `rotation` the cosine and sine of the angle, by which preprocessing turned the
    image. `without_border` tells that a uniform border was left out.
    """

    pixels: UInt8[Tensor, "3 H W"]
    quarters: int = 0
    rotation: tuple[float, float] | None = None
    without_border: bool = False


Transform = Callable[[Image.Image], View]


def pose_of(views: Sequence[View]) -> Pose:
    """How preprocessing turned the images of a batch."""
    quarters = torch.tensor([view.quarters for view in views], dtype=torch.int64)
    if all(view.rotation is None for view in views):
        return Pose(0, quarters, 1)
    return Pose(0, quarters, 1, torch.tensor([view.rotation or (1.0, 0.0) for view in views]))
