"""Decode image files: upright, RGB, with limits on what is read."""

import struct
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

# Larger images are rejected before they are decoded: a small file can expand to gigabytes.
LARGEST_PIXELS = 100_000_000
LARGEST_BYTES = 2**30
_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
HEIF_HINT = "pip install 'spectral-vmamba[heic]'"
_DECODING_ERRORS = (OSError, ValueError, SyntaxError, EOFError, struct.error, Image.DecompressionBombError)


class TooManyPixelsError(ValueError):
    """An image has more pixels than the limit."""


ImageLike = str | Path | bytes | Image.Image | np.ndarray | Tensor


def read_file(path: str | Path, largest_bytes: int = LARGEST_BYTES) -> bytes:
    """Return the bytes of an image file. Raises ValueError if it is missing, unreadable or too large."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"no image file at {path}")
    try:
        size = path.stat().st_size
        if size > largest_bytes:
            raise ValueError(f"{path} has {size:,} bytes, more than the limit of {largest_bytes:,}")
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def decode_image(content: bytes, name: str, largest_pixels: int = LARGEST_PIXELS) -> Image.Image:
    """Decode the bytes of an image file to RGB: upright by its EXIF tag, 16 bits scaled to 8, transparency on white.

    Raises ValueError, with `name` in the message, for damaged images and for more than `largest_pixels`.
    """
    return _decode(content, name, largest_pixels, _to_rgb)


def decode_unconverted(content: bytes, name: str, largest_pixels: int = LARGEST_PIXELS) -> Image.Image:
    """Decode the bytes of an image file as `decode_image`, but leave its pixels in their own mode."""
    return _decode(content, name, largest_pixels, lambda image: image)


def load_image(path: str | Path, largest_pixels: int = LARGEST_PIXELS) -> UInt8[Tensor, "3 H W"]:
    """Read an image file as a tensor."""
    return image_to_tensor(decode_image(read_file(path), str(path), largest_pixels))


def to_pil(image: ImageLike) -> Image.Image:
    """Convert a path, the bytes of a file, a PIL image, or uint8 array (h, w[, c]) or tensor (c, h, w) to RGB.

    One channel is gray, three are RGB. 16 bits and transparency are converted as in files.
    """
    if isinstance(image, (str, Path)):
        return decode_image(read_file(image), str(image))
    if isinstance(image, bytes):
        return decode_image(image, "the image")
    if isinstance(image, Image.Image):
        return _to_rgb(image)
    if isinstance(image, Tensor):
        if image.dtype != torch.uint8 or image.ndim != 3:
            raise ValueError(f"expected a tensor (3, h, w) of uint8, got {image.dtype} {tuple(image.shape)}")
        image = np.moveaxis(image.detach().cpu().numpy(), 0, -1)
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or image.shape[2:] not in ((), (1,), (2,), (3,), (4,)):
        raise ValueError(
            f"expected one image of uint8 values, (h, w) or (h, w, 3) as an array or (3, h, w) as a tensor; got "
            f"{image.dtype} {image.shape}"
        )
    if 0 in image.shape:
        raise ValueError(f"expected an image of at least one pixel, got {image.shape}")
    return _to_rgb(Image.fromarray(image[..., 0] if image.shape[2:] == (1,) else image))


def image_to_tensor(image: Image.Image) -> UInt8[Tensor, "3 H W"]:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def resize(images: Tensor, short_side: int) -> Float[Tensor, "b 3 H W"]:
    """Scale (b, 3, H, W) to a short side, keeping proportions, antialiased."""
    height, width = images.shape[-2:]
    scale = short_side / min(height, width)
    size = (max(round(height * scale), 1), max(round(width * scale), 1))
    return F.interpolate(images.float(), size, mode="bilinear", antialias=True).clamp(0, 255)


def normalize(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Float[Tensor, "b 3 H W"]:
    """Scale pixels 0..255 to 0..1, subtract the mean and divide by the standard deviation of each channel."""
    mean_, std_ = (torch.tensor(values, device=images.device).view(-1, 1, 1) for values in (mean, std))
    return (images.float() / 255 - mean_) / std_


def _decode(
    content: bytes, name: str, largest_pixels: int, convert: Callable[[Image.Image], Image.Image]
) -> Image.Image:
    if _is_heif(content):
        _enable_heif(name)
    try:
        with Image.open(BytesIO(content)) as image:
            width, height = image.size
            if width * height <= largest_pixels:
                return convert(ImageOps.exif_transpose(image))
    except UnidentifiedImageError as error:  # its message names the stream, which differs from call to call
        raise ValueError(f"{name} cannot be read as an image: unknown format") from error
    except _DECODING_ERRORS as error:
        raise ValueError(f"{name} cannot be read as an image: {error}") from error
    raise TooManyPixelsError(f"{name} has {width}×{height} pixels, more than the limit of {largest_pixels:,}")


def _is_heif(content: bytes) -> bool:
    return content[4:8] == b"ftyp" and content[8:12] in _HEIF_BRANDS


def _enable_heif(name: str) -> None:
    """Let Pillow open HEIC images; registering twice has no effect."""
    try:
        from pillow_heif import register_heif_opener  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ValueError(f"{name} is a HEIC image; to read it, {HEIF_HINT}") from error
    register_heif_opener()


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(_to_8_bits(np.asarray(image, dtype=np.float64))).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def _to_8_bits(values: Float[np.ndarray, "H W"]) -> UInt8[np.ndarray, "H W"]:
    """16-bit values lose their lower eight bits; larger values, or fractions, are scaled by the largest value."""
    values = np.nan_to_num(values, nan=0.0, posinf=0.0).clip(0)
    largest = values.max(initial=0)
    fractions = 0 < largest <= 1 and (values != np.floor(values)).any()
    if fractions or largest > 0xFFFF:
        values = values * (255 / largest)
    elif largest > 255:
        values = values / 256
    return values.astype(np.uint8)
