"""Smooth images."""

from math import ceil

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.ops.turns import inscribed_disk, mask_outside_disk


def gaussian_blur(images: Float[Tensor, "b c h w"], sigma: float) -> Float[Tensor, "b c h w"]:
    """Convolve with a Gaussian of `sigma` pixels, cut off at 3 sigma; zeros beyond the canvas."""
    radius, channels = ceil(3 * sigma), images.shape[1]
    offsets = torch.arange(-radius, radius + 1, dtype=images.dtype, device=images.device)
    weights = torch.exp(-((offsets / sigma) ** 2) / 2)
    weights = (weights / weights.sum()).expand(channels, 1, 1, -1)
    rows = F.conv2d(images, weights, padding=(0, radius), groups=channels)
    return F.conv2d(rows, weights.mT, padding=(radius, 0), groups=channels)


def blur_disk(images: Float[Tensor, "b c h w"], sigma: float) -> Float[Tensor, "b c h w"]:
    """Convolve the inscribed disk with a Gaussian; pixels outside the disk have no weight."""
    height, width = images.shape[-2:]
    disk = inscribed_disk(height, width, images.device).to(images.dtype)
    weights = gaussian_blur(disk[None, None], sigma)
    return gaussian_blur(mask_outside_disk(images), sigma) / weights.clamp(min=1e-3)
