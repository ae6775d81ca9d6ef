"""The frame "moment": the brightness centroid of the inscribed disk points up.

The centroid is a sum over pixels of brightness times position. It turns with the image, by any angle. Brightness and
weights are rounded to integers, whose sums are exact: the angle cannot depend on the batch or on the device.
"""

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from spectral_vmamba.ops.frames.moment_native import find_directions_native, has_native_kernel, rotate_disks_native
from spectral_vmamba.ops.frames.pose import Pose
from spectral_vmamba.ops.frames.quarter import quarter_frame
from spectral_vmamba.ops.smoothing import blur_disk, gaussian_blur, gaussian_kernel
from spectral_vmamba.ops.tracing import may_branch
from spectral_vmamba.ops.turns import has_pixel_table, mask_outside_disk, rotated_positions, sample, turn

# Brightness is counted in units of 2^-12, up to ±2^22, and weights in units of 2^-10, up to 1. The sum over 2^24 pixels
# stays below 2^56, and is exact in 64 bits.
_BRIGHTNESS_BITS, _LARGEST_BRIGHTNESS = 12, 2**22
_WEIGHT_BITS = 10
_NEARLY_IN_POSITION = math.sin(math.radians(1.5))
# Every image is blurred by a Gaussian of this many pixels, less below 128 pixels per side. Interpolation blurs an image
# that was turned before; after this blur, the difference is small (docs/pose.md).
_BLUR, _BLUR_SIDE, _LEAST_BLUR = 0.8, 128, 0.3


def moment_frame(images: Float[Tensor, "b c h w"]) -> tuple[Float[Tensor, "b c h2 w2"], Pose]:
    """Rotate each image so that the brightness centroid of its inscribed disk points up; the rest is set to zero.

    The quarter frame comes first, so that all quarter turns of an image give the same bits. The rotation is bicubic and
    limited to the values of the image, which it would overshoot at edges.
    """
    turned, pose, rotation = find_rotation(images)
    return rotate_further(turned, pose, rotation)


def rotate_further(
    images: Float[Tensor, "b c h w"], pose: Pose, rotation: Float[Tensor, "b 2"]
) -> tuple[Float[Tensor, "b c h w"], Pose]:
    """Rotate each image, which `pose` brought into the quarter frame, by cosine and sine; returns the pose of both.

    The image is blurred slightly: an image that was turned before looks the same then.
    """
    if images.shape[-2] != images.shape[-1]:
        return mask_outside_disk(rotate_sharply(_blur(images), rotation)), replace(pose, rotation=rotation)
    # An image in its position, as preprocessing returns it, needs quarter turns only. It is not interpolated again: at
    # these, the nearest pixel of every position is exactly there.
    near = rotation.abs().amin(1, keepdim=True) < _NEARLY_IN_POSITION
    direction = torch.where(near, rotation.round(), rotation)
    turned = _rotate_disk(images, direction, near.squeeze(1))
    cos, sin = direction.unbind(1)
    quarters = (1 + sin * sin - sin - cos).long() * near.squeeze(1)  # 0 to 3, of whole cosines and sines
    remaining = torch.where(near, rotation.new_tensor([1.0, 0.0]), rotation)
    return turned, Pose(pose.common, (pose.own + quarters) % 4, 1, remaining)


def _rotate_disk(
    images: Float[Tensor, "b c s s"], direction: Float[Tensor, "b 2"], nearest: Bool[Tensor, "b"]
) -> Float[Tensor, "b c s s"]:
    """Blur and rotate by cosine and sine, some images at their nearest pixels; only the inscribed disk."""
    if has_native_kernel(images):
        sigma = _blur_sigma(images)
        return rotate_disks_native(images, direction, nearest, gaussian_kernel(sigma) if sigma else (1.0,))
    images = _blur(images)
    return mask_outside_disk(_sample_either(images, rotated_positions(images, direction), nearest))


def moment_orbit(images: Float[Tensor, "b c h w"], side: int, turns: int, blur: float) -> Float[Tensor, "k b c s s"]:
    """The center square, of `side` pixels, of each image turned in steps of 360° / `turns` from the frame "moment".

    The image is blurred first, by a Gaussian of `blur` pixels, and interpolated once. Where the square reaches beyond
    the disk, it shows the disk reflected at its edge. All quarter turns of an image give the same bits.
    """
    if turns < 4 or turns % 4:
        raise ValueError(f"expected a multiple of 4 turns, got {turns}")
    turned, _, rotation = find_rotation(images)
    blurred = blur_disk(turned, blur)
    steps = [2 * math.pi * i / turns for i in range(turns // 4)]
    square = (side, side)
    between = [rotate_sharply(blurred, _add_angle(rotation, step), square, reflect=True) for step in steps]
    return torch.stack([turn(copy, quarters) for quarters in range(4) for copy in between])


def _add_angle(rotation: Float[Tensor, "b 2"], radians: float) -> Float[Tensor, "b 2"]:
    (cos, sin), c, s = rotation.unbind(1), math.cos(radians), math.sin(radians)
    return torch.stack([c * cos - s * sin, s * cos + c * sin], dim=1)


def rotate_sharply(
    images: Float[Tensor, "b c h w"],
    rotation: Float[Tensor, "b 2"],
    canvas: tuple[int, int] | None = None,
    reflect: bool = False,
) -> Float[Tensor, "b c h2 w2"]:
    """Rotate by bicubic interpolation, limited to the range of values that each channel of an image has.

    Returns the same canvas, or another one; see `rotated_positions`.
    """
    return _sample_sharply(images, rotated_positions(images, rotation, canvas, reflect))


def _blur(images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
    sigma = _blur_sigma(images)
    return gaussian_blur(images, sigma) if sigma else images


def _blur_sigma(images: Tensor) -> float:
    """In pixels; 0 for none."""
    sigma = _BLUR * min(1, min(images.shape[-2:]) / _BLUR_SIDE)
    return sigma if sigma >= _LEAST_BLUR else 0.0


def _sample_either(
    images: Float[Tensor, "b c h w"], positions: Float[Tensor, "b h w 2"], nearest: Bool[Tensor, "b"]
) -> Float[Tensor, "b c h w"]:
    """Sample some images at the nearest pixels and the others sharply."""
    if not may_branch(images):  # both for all: shapes do not depend on values
        exact, rotated = sample(images, positions, interpolation="nearest"), _sample_sharply(images, positions)
        return torch.where(nearest[:, None, None, None], exact, rotated)
    if nearest.all():
        return sample(images, positions, interpolation="nearest")
    sampled = _sample_sharply(images, positions)
    if nearest.any():
        sampled[nearest] = sample(images[nearest], positions[nearest], interpolation="nearest")
    return sampled


def _sample_sharply(
    images: Float[Tensor, "b c h w"], positions: Float[Tensor, "b h2 w2 2"]
) -> Float[Tensor, "b c h2 w2"]:
    lowest, highest = images.amin((-2, -1), keepdim=True), images.amax((-2, -1), keepdim=True)
    return sample(images, positions, interpolation="bicubic").clamp(lowest, highest)


def find_rotation(images: Float[Tensor, "b c h w"]) -> tuple[Float[Tensor, "b c h2 w2"], Pose, Float[Tensor, "b 2"]]:
    """The disk in the quarter frame, its pose, and the rotation that remains to the frame "moment"."""
    if has_native_kernel(images):
        height, width = images.shape[-2:]
        weights = _weights(height, width, images.device)
        turned, own, sums = find_directions_native(images, weights, 2.0**-_BRIGHTNESS_BITS, _LARGEST_BRIGHTNESS)
        return turned, Pose(0, own, 1), _direction(sums.to(images.dtype)).flip(1)
    turned, pose = quarter_frame(mask_outside_disk(images), stop_early=may_branch(images))
    return turned, pose, brightness_direction(turned).flip(1)  # from the direction (right, up) to (0, 1)


def brightness_direction(images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b 2"]:
    """The unit vector, to the right and up, from the center to the brightness centroid of the inscribed disk.

    It is (0, 1) where there is none, because the image is constant or symmetric. Brightness is the sum of the channels.
    Pixels count less towards the edge of the disk, where a shift would add or remove some at once.
    """
    channels = images.detach().to(torch.promote_types(images.dtype, torch.float32)).unbind(1)
    gray = sum(channels[1:], start=channels[0])  # one after the other: `sum` of torch may round in another order
    gray = (gray * 2**_BRIGHTNESS_BITS).nan_to_num(0.0).clamp(-_LARGEST_BRIGHTNESS, _LARGEST_BRIGHTNESS)
    counted = gray.round().to(torch.int64)
    height, width = images.shape[-2:]
    sums = (counted[:, None] * _weights(height, width, images.device)).sum((-2, -1))
    return _direction(sums.to(gray.dtype))


def _direction(centroid: Float[Tensor, "b 2"]) -> Float[Tensor, "b 2"]:
    """Its unit vector, (0, 1) for none."""
    # Only operations that are rounded the same way everywhere: no arc tangent, no cosine.
    x, y = centroid.unbind(1)
    length = (x * x + y * y).sqrt()[:, None]
    return torch.where(length > 0, centroid / length.clamp(min=1), centroid.new_tensor([0.0, 1.0]))


def _weights(height: int, width: int, device: torch.device) -> Int[Tensor, "2 h w"]:
    """How much each pixel pulls to the right and up: its position times 1 − r², 0 outside the disk.

    Pixels opposite each other have opposite weights: a constant brightness has no direction.
    """
    if has_pixel_table(height, width, device):
        return torch.tensor(_weight_table(height, width), device=device)
    diameter = min(height, width)
    y, x = (torch.arange(side, device=device) * 2 - (side - 1) for side in (height, width))
    x, y = x[None, :] / diameter, -y[:, None] / diameter
    window = (1 - (x**2 + y**2)).clamp(min=0) * 2**_WEIGHT_BITS
    return torch.stack([(x * window).round(), (y * window).round()]).to(torch.int64)


@lru_cache(maxsize=32)
def _weight_table(height: int, width: int) -> Int[np.ndarray, "2 h w"]:
    """The same values, by the same operations in float32."""
    diameter = np.float32(min(height, width))
    y, x = ((np.arange(side) * 2 - (side - 1)).astype(np.float32) for side in (height, width))
    x, y = x[None, :] / diameter, -y[:, None] / diameter
    window = (1 - (x**2 + y**2)).clip(0) * np.float32(2**_WEIGHT_BITS)
    return np.stack([(x * window).round(), (y * window).round()]).astype(np.int64)
