"""The frame "moment": the brightness centroid of the inscribed disk points up.

The centroid is a sum over pixels of brightness times position. It turns with the image, by any angle. Brightness and
weights are rounded to integers, whose sums are exact: the angle cannot depend on the batch or on the device.
"""

import math
from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from spectral_vmamba.ops.frames.pose import Pose, select_turn
from spectral_vmamba.ops.frames.quarter import quarter_frame
from spectral_vmamba.ops.smoothing import blur_disk
from spectral_vmamba.ops.turns import mask_outside_disk, rotate_each, turn

# Brightness is counted in units of 2^-12, up to ±2^22, and weights in units of 2^-10, up to 1. The sum over 2^24 pixels
# stays below 2^56, and is exact in 64 bits.
_BRIGHTNESS_BITS, _LARGEST_BRIGHTNESS = 12, 2**22
_WEIGHT_BITS = 10
_NEARLY_IN_POSITION = math.sin(math.radians(1.5))


def moment_frame(images: Float[Tensor, "b c h w"]) -> tuple[Float[Tensor, "b c h2 w2"], Pose]:
    """Rotate each image so that the brightness centroid of its inscribed disk points up; the rest is set to zero.

    The quarter frame comes first, so that all quarter turns of an image give the same bits. The rotation is bicubic and
    limited to the values of the image, which it would overshoot at edges.
    """
    turned, pose, rotation = _find_rotation(images)
    return rotate_further(turned, pose, rotation)


def rotate_further(
    images: Float[Tensor, "b c h w"], pose: Pose, rotation: Float[Tensor, "b 2"]
) -> tuple[Float[Tensor, "b c h w"], Pose]:
    """Rotate each image, which `pose` brought into the quarter frame, by cosine and sine; returns the pose of both."""
    rotated = mask_outside_disk(rotate_sharply(images, rotation))
    if images.shape[-2] != images.shape[-1]:
        return rotated, replace(pose, rotation=rotation)
    # An image in its position, as preprocessing returns it, needs quarter turns only. It is not interpolated again.
    quarters, near = _nearest_quarters(rotation)
    exact = select_turn([turn(images, each) for each in range(4)], quarters)
    remaining = torch.where(near[:, None], rotation.new_tensor([1.0, 0.0]), rotation)
    pose = Pose(pose.common, (pose.own + quarters * near) % 4, 1, remaining)
    return torch.where(near[:, None, None, None], exact, rotated), pose


def _nearest_quarters(rotation: Float[Tensor, "b 2"]) -> tuple[Int[Tensor, "b"], Bool[Tensor, "b"]]:
    """The number of quarter turns nearest to a rotation, and whether the rotation is nearly that."""
    cos, sin = rotation.unbind(1)
    even, odd = torch.where(cos >= 0, 0, 2), torch.where(sin >= 0, 1, 3)
    near = torch.minimum(cos.abs(), sin.abs()) < _NEARLY_IN_POSITION
    return torch.where(sin.abs() > cos.abs(), odd, even), near


def moment_orbit(images: Float[Tensor, "b c h w"], side: int, turns: int, blur: float) -> Float[Tensor, "k b c s s"]:
    """The center square, of `side` pixels, of each image turned in steps of 360° / `turns` from the frame "moment".

    The image is blurred first, by a Gaussian of `blur` pixels, and interpolated once. Where the square reaches beyond
    the disk, it shows the disk reflected at its edge. All quarter turns of an image give the same bits.
    """
    if turns < 4 or turns % 4:
        raise ValueError(f"expected a multiple of 4 turns, got {turns}")
    turned, _, rotation = _find_rotation(images)
    blurred = blur_disk(turned, blur)
    steps = [2 * math.pi * i / turns for i in range(turns // 4)]
    between = [rotate_sharply(blurred, _add_angle(rotation, step), "disk", side) for step in steps]
    return torch.stack([turn(copy, quarters) for quarters in range(4) for copy in between])


def _add_angle(rotation: Float[Tensor, "b 2"], radians: float) -> Float[Tensor, "b 2"]:
    (cos, sin), c, s = rotation.unbind(1), math.cos(radians), math.sin(radians)
    return torch.stack([c * cos - s * sin, s * cos + c * sin], dim=1)


def rotate_sharply(
    images: Float[Tensor, "b c h w"],
    rotation: Float[Tensor, "b 2"],
    outside: Literal["zeros", "disk"] = "zeros",
    side: int | None = None,
) -> Float[Tensor, "b c h2 w2"]:
    """Rotate by bicubic interpolation, limited to the range of values that each channel of an image has."""
    lowest, highest = images.amin((-2, -1), keepdim=True), images.amax((-2, -1), keepdim=True)
    return rotate_each(images, rotation, outside, "bicubic", side).clamp(lowest, highest)


def _find_rotation(images: Float[Tensor, "b c h w"]) -> tuple[Float[Tensor, "b c h2 w2"], Pose, Float[Tensor, "b 2"]]:
    """The disk in the quarter frame, its pose, and the rotation that remains to the frame "moment"."""
    turned, pose = quarter_frame(mask_outside_disk(images))
    right, up = brightness_direction(turned).unbind(1)
    return turned, pose, torch.stack([up, right], dim=1)  # from the direction (right, up) to (0, 1)


def brightness_direction(images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b 2"]:
    """The unit vector, to the right and up, from the center to the brightness centroid of the inscribed disk.

    It is (0, 1) where there is none, because the image is constant or symmetric. Brightness is the sum of the channels.
    Pixels count less towards the edge of the disk, where a shift would add or remove some at once.
    """
    gray = images.detach().to(torch.promote_types(images.dtype, torch.float32)).sum(1)
    gray = (gray * 2**_BRIGHTNESS_BITS).nan_to_num(0.0).clamp(-_LARGEST_BRIGHTNESS, _LARGEST_BRIGHTNESS)
    counted = gray.round().to(torch.int64)
    height, width = images.shape[-2:]
    sums = [(counted * weight).sum((-2, -1)) for weight in _weights(height, width, images.device)]
    centroid = torch.stack(sums, dim=1)
    # Only operations that are rounded the same way everywhere: no arc tangent, no cosine.
    x, y = centroid.to(gray.dtype).unbind(1)
    length = (x * x + y * y).sqrt()[:, None]
    upward = torch.tensor([0.0, 1.0], dtype=gray.dtype, device=gray.device)
    return torch.where(length > 0, centroid.to(gray.dtype) / length.clamp(min=1), upward)


def _weights(height: int, width: int, device: torch.device) -> tuple[Int[Tensor, "h w"], Int[Tensor, "h w"]]:
    """How much each pixel pulls to the right and up: its position times 1 − r², 0 outside the disk.

    Pixels opposite each other have opposite weights: a constant brightness has no direction.
    """
    diameter = min(height, width)
    y, x = (torch.arange(side, device=device) * 2 - (side - 1) for side in (height, width))
    x, y = x[None, :] / diameter, -y[:, None] / diameter
    window = (1 - (x**2 + y**2)).clamp(min=0) * 2**_WEIGHT_BITS
    return (x * window).round().to(torch.int64), (y * window).round().to(torch.int64)
