"""Reading images from files, carefully."""

import struct
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

# Larger files are refused before they are decoded: a small file can unpack to gigabytes.
LARGEST_PIXELS = 100_000_000
_UNREADABLE = (UnidentifiedImageError, OSError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError)


def load_image(path: str | Path, largest_pixels: int = LARGEST_PIXELS) -> UInt8[Tensor, "3 H W"]:
    """`decode_image` of a file, as a tensor."""
    return as_tensor(decode_image(path, largest_pixels))


def as_tensor(image: Image.Image) -> UInt8[Tensor, "3 H W"]:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def decode_image(
    source: str | Path | bytes, largest_pixels: int = LARGEST_PIXELS, name: str | None = None
) -> Image.Image:
    """An RGB image the way a person would see it: upright by its EXIF tag, 16-bit scaled, transparency on white.

    From a file, or from a file's bytes, which errors call `name`.
    """
    if isinstance(source, bytes):
        name, stream = name or "the image", BytesIO(source)
    else:
        name, stream = name or str(source), Path(source)
        if not stream.is_file():
            raise FileNotFoundError(f"no image file at {source}")
    try:
        with Image.open(stream) as image:
            if image.width * image.height > largest_pixels:
                size = f"{image.width}×{image.height}"
                raise ValueError(f"{name} has {size} pixels, more than the {largest_pixels:,} that are read")
            return _rgb(ImageOps.exif_transpose(image))
    except (
        UnidentifiedImageError,
        OSError,
        SyntaxError,
        EOFError,
        struct.error,
        Image.DecompressionBombError,
    ) as error:
        raise ValueError(f"{name} cannot be read as an image: {error}") from error


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(_eight_bits(np.asarray(image, dtype=np.float64))).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def _eight_bits(values: Float[np.ndarray, "H W"]) -> UInt8[np.ndarray, "H W"]:
    """16 bits lose the lower eight; more, or fractions, are scaled by the largest value."""
    values = np.nan_to_num(values, nan=0.0, posinf=0.0).clip(0)
    largest = values.max(initial=0)
    fractions = 0 < largest <= 1 and (values != np.floor(values)).any()
    if fractions or largest > 0xFFFF:
        values = values * (255 / largest)
    elif largest > 255:
        values = values / 256
    return values.astype(np.uint8)


def resize(images: Tensor, short_side: int) -> Float[Tensor, "b 3 H W"]:
    """Scale (b, 3, H, W) to a short side, keeping proportions, antialiased."""
    height, width = images.shape[-2:]
    scale = short_side / min(height, width)
    size = (max(round(height * scale), 1), max(round(width * scale), 1))
    return F.interpolate(images.float(), size, mode="bilinear", antialias=True).clamp(0, 255)


def normalize(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Float[Tensor, "b 3 H W"]:
    """Pixels 0..255 to what a network was made for."""
    mean_, std_ = (torch.tensor(values, device=images.device).view(-1, 1, 1) for values in (mean, std))
    return (images.float() / 255 - mean_) / std_
