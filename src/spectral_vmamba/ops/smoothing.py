"""Smooth images."""

from math import ceil, exp

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.ops.turns import inscribed_disk, mask_outside_disk


def gaussian_blur(images: Float[Tensor, "b c h w"], sigma: float) -> Float[Tensor, "b c h w"]:
    """Convolve with a Gaussian of `sigma` pixels, cut off at 3 sigma; zeros beyond the canvas.

    Sums of shifted images, not a convolution of torch: the result of an image does not depend on the batch, and mixed
    precision does not round it.
    """
    center, *weights = gaussian_kernel(sigma)
    radius = len(weights)
    for axis, padding in ((-2, (0, 0, radius, radius)), (-1, (radius, radius, 0, 0))):
        size, padded = images.shape[axis], F.pad(images, padding)
        blurred = images * center
        for offset, weight in enumerate(weights, start=1):
            pair = padded.narrow(axis, radius - offset, size) + padded.narrow(axis, radius + offset, size)
            blurred = blurred + pair * weight
        images = blurred
    return images


def gaussian_kernel(sigma: float) -> list[float]:
    """The weights of a Gaussian of `sigma` pixels, cut off at 3 sigma: the center and one half, of a sum of 1."""
    weights = [exp(-((offset / sigma) ** 2) / 2) for offset in range(ceil(3 * sigma) + 1)]
    total = weights[0] + 2 * sum(weights[1:])
    return [weight / total for weight in weights]


def blur_disk(images: Float[Tensor, "b c h w"], sigma: float) -> Float[Tensor, "b c h w"]:
    """Convolve the inscribed disk with a Gaussian; pixels outside the disk have no weight."""
    height, width = images.shape[-2:]
    disk = inscribed_disk(height, width, images.device).to(images.dtype)
    weights = gaussian_blur(disk[None, None], sigma)
    return gaussian_blur(mask_outside_disk(images), sigma) / weights.clamp(min=1e-3)
