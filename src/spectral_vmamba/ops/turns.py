"""Turn and rotate images and feature maps; the inscribed disk.

`quarters` counts counterclockwise quarter turns, as in `torch.rot90`. Angles are counterclockwise, in degrees.
"""

from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

# What a rotated image shows in its corners: black (as in the paper), the image reflected at its edge, or no corners at
# all, because only the inscribed disk is shown at every angle.
Fill = Literal["black", "reflect", "disk"]
FILLS: tuple[Fill, ...] = get_args(Fill)

_LARGEST_TABLE = 2**16  # pixels


class Rotation(NamedTuple):
    """A rotation of an image, and what its corners show."""

    angle: float
    fill: Fill

    def simplify(self, disk_only: bool) -> "Rotation":
        """The rotation with the same pixels, where another fill gives the same ones.

        Quarter turns have no corners to fill. With `disk_only`, pixels outside the inscribed disk are masked later, so
        that the fills "black" and "disk", which interpolate alike, do not differ.
        """
        no_corners = self.angle % 90 == 0 and self.fill == "reflect"
        return Rotation(self.angle, "black") if no_corners or (disk_only and self.fill == "disk") else self


UPRIGHT = Rotation(0.0, "black")


def turn(maps: Shaped[Tensor, "*b h w"], quarters: int) -> Shaped[Tensor, "*b h2 w2"]:
    """Turn by quarter turns, exactly. The result is contiguous, so that later kernels take the same path every time."""
    return torch.rot90(maps, quarters, (-2, -1)).contiguous()


def rotate(
    maps: Float[Tensor, "b c h w"],
    degrees: float | Float[Tensor, ""],
    outside: Literal["zeros", "reflection"] = "zeros",
) -> Float[Tensor, "b c h2 w2"]:
    """Rotate about the center. Multiples of 90 are exact quarter turns, other angles are bilinear on the same canvas.

    `outside` fills what comes from beyond the canvas. An angle given as a tensor is always interpolated: its value is
    not known to compilers.
    """
    if not isinstance(degrees, Tensor) and degrees % 90 == 0:
        return turn(maps, round(degrees / 90) % 4)
    dtype = torch.promote_types(maps.dtype, torch.float32)
    radians = torch.deg2rad(torch.as_tensor(degrees, dtype=dtype, device=maps.device))
    direction = torch.stack([torch.cos(radians), torch.sin(radians)])
    return rotate_each(maps, direction.expand(maps.shape[0], 2), outside)


def rotate_each(
    maps: Float[Tensor, "b c h w"],
    directions: Float[Tensor, "b 2"],
    outside: Literal["zeros", "reflection"] = "zeros",
    interpolation: Literal["bilinear", "bicubic"] = "bilinear",
) -> Float[Tensor, "b c h w"]:
    """Rotate each image about the center by its own angle, given by cosine and sine, on the same canvas."""
    return sample(maps, rotated_positions(maps, directions), outside, interpolation)


def rotated_positions(
    maps: Float[Tensor, "b c h w"],
    directions: Float[Tensor, "b 2"],
    canvas: tuple[int, int] | None = None,
    reflect: bool = False,
) -> Float[Tensor, "b h2 w2 2"]:
    """Where the pixels of rotated maps come from, for `sample`: those of the same canvas, or of another one, height and
    width, with the same center. With `reflect`, everything beyond the inscribed disk is the disk reflected at its
    edge."""
    # In float32 at least: half precision cannot tell the coordinates of neighboring pixels apart.
    dtype = torch.promote_types(maps.dtype, torch.float32)
    height, width = maps.shape[-2:]
    cos, sin = directions.to(dtype)[:, :, None, None].unbind(1)
    # Pixel centers from the center of the canvas, in half pixels; y points down. Every coordinate is computed by
    # itself: the rotation of an image does not depend on the rest of the batch.
    sides = canvas or (height, width)
    y, x = (torch.arange(1 - length, length, 2, dtype=dtype, device=maps.device) for length in sides)
    y = y[:, None]
    x, y = cos * x - sin * y, sin * x + cos * y
    if reflect:
        x, y = _reflect_into_disk(x, y, min(height, width) - 1)
    return torch.stack([x / width, y / height], dim=-1)


def sample(
    maps: Float[Tensor, "b c h w"],
    positions: Float[Tensor, "b h2 w2 2"],
    outside: Literal["zeros", "reflection"] = "zeros",
    interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear",
) -> Float[Tensor, "b c h2 w2"]:
    """Interpolate maps at positions from −1 to 1, from edge to edge."""
    values = maps.to(positions.dtype)
    sampled = F.grid_sample(values, positions, mode=interpolation, padding_mode=outside, align_corners=False)
    return sampled.to(maps.dtype)


def _reflect_into_disk(
    x: Float[Tensor, "b h w"], y: Float[Tensor, "b h w"], radius: int
) -> tuple[Float[Tensor, "b h w"], Float[Tensor, "b h w"]]:
    """Reflect points outside a disk at its edge, towards the center. They must be within twice its radius."""
    distance = (x * x + y * y).sqrt()
    scale = torch.where(distance > radius, (2 * radius - distance) / distance.clamp(min=1), 1.0)
    return x * scale, y * scale


def rotate_pixels(pixels: Shaped[Tensor, "b c h w"], angle: float, fill: Fill) -> Float[Tensor, "b c h2 w2"]:
    """Rotate images of pixel values 0 to 255 and fill the corners; returns floats."""
    rotated = rotate(pixels.float(), angle, "reflection" if fill == "reflect" else "zeros")
    return mask_outside_disk(rotated) if fill == "disk" else rotated


def inscribed_disk(height: int, width: int, device: torch.device) -> Bool[Tensor, "h w"]:
    """Pixels whose center lies in the inscribed circle. Integer arithmetic, so quarter turns preserve it exactly."""
    if has_pixel_table(height, width, device):
        return torch.tensor(_disk_table(height, width), device=device)
    y, x = (torch.arange(side, device=device) * 2 - (side - 1) for side in (height, width))
    return y[:, None] ** 2 + x**2 <= min(height, width) ** 2


def has_pixel_table(height: int, width: int, device: torch.device) -> bool:
    """Whether values that depend on the size alone are looked up. For small images this is faster than to compute them;
    compilers cannot see the tables."""
    return not torch.compiler.is_compiling() and device.type == "cpu" and height * width <= _LARGEST_TABLE


@lru_cache(maxsize=32)
def _disk_table(height: int, width: int) -> Bool[np.ndarray, "h w"]:
    y, x = (np.arange(side) * 2 - (side - 1) for side in (height, width))
    return y[:, None] ** 2 + x**2 <= min(height, width) ** 2


def mask_outside_disk(images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
    """Set the pixels outside the inscribed circle to zero."""
    height, width = images.shape[-2:]
    return torch.where(inscribed_disk(height, width, images.device), images, 0.0)
