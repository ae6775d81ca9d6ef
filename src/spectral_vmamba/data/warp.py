"""Rotate, crop and resize a disk of an image, in one resampling from the image's own resolution."""

from dataclasses import dataclass
from math import ceil, floor, sqrt

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from PIL import Image
from scipy.ndimage import gaussian_filter1d
from torch import Tensor

from spectral_vmamba.data.borders import ContentDisk

# In input pixels per output pixel. Disks above _LARGEST_SCALE are first reduced by averages of whole pixels, but not
# below _REDUCED_SCALE, where the Gaussian filter that follows is wide enough to make the averages equal in all
# directions.
_LARGEST_SCALE = 6
_REDUCED_SCALE = 3
_BICUBIC_REACH = 2  # pixels
_GAUSSIAN_REACH = 3  # standard deviations


def warp_disk(
    image: Image.Image, disk: ContentDisk, direction: tuple[float, float], size: int
) -> UInt8[Tensor, "3 size size"]:
    """Rotate an RGB image counterclockwise about the disk's center, and resize the square around the disk.

    `direction` is the cosine and the sine of the angle. What comes from outside of the image is black. A disk with as
    many pixels as the result is not changed at direction (1, 0).
    """
    scale = 2 * disk.radius / size
    factor = floor(scale / _REDUCED_SCALE) if scale > _LARGEST_SCALE else 1
    sigma = _prefilter_sigma(scale / factor)
    reach = ceil(_GAUSSIAN_REACH * sigma)
    x, y = source_coordinates(disk, direction, size)
    region = _read_region(image, x, y, factor, margin=_BICUBIC_REACH + reach)
    height, width = region.pixels.shape[-2:]
    sources = torch.stack([region.normalize(x, region.left, width), region.normalize(y, region.top, height)], dim=-1)
    pixels = _blur(region.pixels, sigma, reach)[None]
    # Not the padding "zeros": next to the edge of the image, it would mix black into the result.
    warped = F.grid_sample(pixels, sources[None], mode="bicubic", padding_mode="border", align_corners=False)[0]
    inside = (x >= 0) & (x <= image.width) & (y >= 0) & (y <= image.height)
    return torch.where(inside, warped, 0.0).round().clamp(0, 255).to(torch.uint8)


@dataclass(frozen=True)
class _Region:
    """A part of an image, reduced by `factor`. `left` and `top` are pixels of the image."""

    pixels: Float[Tensor, "3 h w"]
    left: int
    top: int
    factor: int

    def normalize(self, positions: Float[Tensor, "size size"], start: int, side: int) -> Float[Tensor, "size size"]:
        """Coordinates of the image as coordinates from −1 to 1 over `side` pixels of the region."""
        return ((positions - start) * (2 / (side * self.factor)) - 1).float()


def source_coordinates(
    disk: ContentDisk, direction: tuple[float, float], size: int
) -> tuple[Float[Tensor, "size size"], Float[Tensor, "size size"]]:
    """The position in the image of every pixel center of the result."""
    cos, sin = direction
    right = torch.arange(1 - size, size, 2, dtype=torch.float64) * (disk.radius / size)
    down = right[:, None]
    return disk.x + (cos * right - sin * down), disk.y + (sin * right + cos * down)


def _read_region(image: Image.Image, x: Tensor, y: Tensor, factor: int, margin: int) -> _Region:
    """Convert the pixels around the positions, and no others, to floats."""
    left, right = _bounds(x, image.width, factor, margin)
    top, bottom = _bounds(y, image.height, factor, margin)
    pixels = torch.from_numpy(np.array(image.reduce(factor, (left, top, right, bottom))))
    return _Region(pixels.permute(2, 0, 1).float().contiguous(), left, top, factor)


def _bounds(positions: Tensor, side: int, factor: int, margin: int) -> tuple[int, int]:
    """First and last pixel, a whole number of reduced pixels apart where the image does not end before."""
    start = min(max(floor(positions.min().item()) - margin * factor, 0), side - 1)
    reduced = max(ceil((positions.max().item() - start) / factor) + margin, 1)
    return start, min(start + reduced * factor, side)


def _prefilter_sigma(scale: float) -> float:
    """The Gaussian that widens an input pixel to an output pixel of `scale` of them; zero for enlargements."""
    return 0.5 * sqrt(max(scale**2 - 1, 0))


def _blur(pixels: Float[Tensor, "3 h w"], sigma: float, reach: int) -> Float[Tensor, "3 h w"]:
    """Filter both directions; the image continues with the color of its edge. SciPy: torch's convolution unfolds."""
    if reach == 0:
        return pixels
    blurred = pixels.numpy()
    for axis in (1, 2):
        blurred = gaussian_filter1d(blurred, sigma, axis, mode="nearest", radius=reach)
    return torch.from_numpy(blurred)
