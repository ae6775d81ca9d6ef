"""Smooth images."""

from math import ceil

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def gaussian_blur(images: Float[Tensor, "b c h w"], sigma: float) -> Float[Tensor, "b c h w"]:
    """Convolve with a Gaussian of `sigma` pixels, cut off at 3 sigma; zeros beyond the canvas."""
    radius, channels = ceil(3 * sigma), images.shape[1]
    offsets = torch.arange(-radius, radius + 1, dtype=images.dtype, device=images.device)
    weights = torch.exp(-((offsets / sigma) ** 2) / 2)
    weights = (weights / weights.sum()).expand(channels, 1, 1, -1)
    rows = F.conv2d(images, weights, padding=(0, radius), groups=channels)
    return F.conv2d(rows, weights.mT, padding=(radius, 0), groups=channels)
