"""Reading pictures from files, carefully."""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

# Larger files are refused before they are decoded: a small file can unpack to gigabytes.
LARGEST_PIXELS = 100_000_000


def load_image(path: str | Path, largest_pixels: int = LARGEST_PIXELS) -> UInt8[Tensor, "3 H W"]:
    """An RGB picture the way a person would see it: upright by its EXIF tag, 16-bit scaled, transparency on white."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no image file at {path}")
    try:
        with Image.open(path) as image:
            if image.width * image.height > largest_pixels:
                size = f"{image.width}×{image.height}"
                raise ValueError(f"{path} has {size} pixels, more than the {largest_pixels:,} that are read")
            upright = ImageOps.exif_transpose(image)
            return torch.from_numpy(_rgb(upright)).permute(2, 0, 1)
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} cannot be read as an image: {error}") from error


def _rgb(image: Image.Image) -> np.ndarray:
    if image.mode.startswith("I"):
        values = np.asarray(image, dtype=np.int64).clip(0)
        largest = values.max(initial=0)
        if largest > 0xFFFF:
            values = values * 255 // largest
        elif largest > 255:
            values = values >> 8
        return np.repeat(values.astype(np.uint8)[..., None], 3, axis=2)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.array(image.convert("RGB"))


def resize(images: Tensor, short_side: int) -> Float[Tensor, "b 3 H W"]:
    """Scale (b, 3, H, W) to a short side, keeping proportions, antialiased."""
    height, width = images.shape[-2:]
    scale = short_side / min(height, width)
    size = (max(round(height * scale), 1), max(round(width * scale), 1))
    return F.interpolate(images.float(), size, mode="bilinear", antialias=True).clamp(0, 255)


def normalise(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Float[Tensor, "b 3 H W"]:
    """Pixels 0..255 to what a network was made for."""
    mean_, std_ = (torch.tensor(values, device=images.device).view(-1, 1, 1) for values in (mean, std))
    return (images.float() / 255 - mean_) / std_
