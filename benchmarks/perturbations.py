"""Changes of images that should not change what a network answers: noise, JPEG, gamma, blur, shifts, zoom."""

from collections.abc import Callable
from functools import partial
from io import BytesIO

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from spectral_vmamba.data.decode import image_to_tensor
from spectral_vmamba.ops.smoothing import gaussian_blur

Images = Float[Tensor, "n 3 H W"]  # pixel values, 0 to 255
Perturbation = Callable[[Images, torch.Generator], Images]


def perturb_image(image: Image.Image, perturbation: Perturbation, seed: int) -> Image.Image:
    """Change one RGB image at its own resolution; the result is rounded to pixels of 8 bits."""
    pixels = image_to_tensor(image)[None].float()
    changed = perturbation(pixels, torch.Generator().manual_seed(seed))[0].round().clamp(0, 255).byte()
    return Image.fromarray(np.ascontiguousarray(changed.permute(1, 2, 0).numpy()))


def add_noise(images: Images, generator: torch.Generator, deviation: float) -> Images:
    """`deviation` is a share of the range of pixel values."""
    return (images + deviation * 255 * torch.randn(images.shape, generator=generator)).clamp(0, 255)


def save_as_jpeg(images: Images, generator: torch.Generator, quality: int) -> Images:
    return torch.stack([_save_as_jpeg(image, quality) for image in images])


def change_gamma(images: Images, generator: torch.Generator, exponent: float) -> Images:
    return 255 * (images / 255) ** exponent


def blur(images: Images, generator: torch.Generator, sigma: float) -> Images:
    """The image continues with the color of its edge."""
    margin = 3 * round(sigma)
    padded = F.pad(images, (margin,) * 4, mode="replicate")
    return gaussian_blur(padded, sigma)[..., margin:-margin, margin:-margin]


def shift(images: Images, generator: torch.Generator, pixels: int) -> Images:
    """Down and to the right."""
    padded = F.pad(images, (pixels,) * 4, mode="replicate")
    return padded[..., : -2 * pixels, : -2 * pixels]


def zoom(images: Images, generator: torch.Generator, factor: float) -> Images:
    """Enlarge about the center."""
    height, width = images.shape[-2:]
    enlarged = F.interpolate(images, [round(factor * height), round(factor * width)], mode="bicubic", antialias=True)
    top, left = (enlarged.shape[-2] - height) // 2, (enlarged.shape[-1] - width) // 2
    return enlarged[..., top : top + height, left : left + width]


PERTURBATIONS: dict[str, Perturbation] = {
    "noise of 0.02": partial(add_noise, deviation=0.02),
    "JPEG 90": partial(save_as_jpeg, quality=90),
    "JPEG 75": partial(save_as_jpeg, quality=75),
    "gamma 0.7": partial(change_gamma, exponent=0.7),
    "blur, σ 1 px": partial(blur, sigma=1.0),
    "shift by 1 px": partial(shift, pixels=1),
    "shift by 2 px": partial(shift, pixels=2),
    "zoom by 5 %": partial(zoom, factor=1.05),
}


def _save_as_jpeg(image: Float[Tensor, "3 H W"], quality: int) -> Float[Tensor, "3 H W"]:
    stream = BytesIO()
    Image.fromarray(image.permute(1, 2, 0).byte().numpy()).save(stream, "JPEG", quality=quality)
    return image_to_tensor(Image.open(stream)).float()
