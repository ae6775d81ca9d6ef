"""Image files as people get them: turned, rotated, resized and saved again, with a real encoder, in memory."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO
from math import ceil, hypot

import numpy as np
import torch
from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset, ImageStorage
from spectral_vmamba.data.decode import decode_image
from spectral_vmamba.ops.turns import Fill, inscribed_disk

FileChange = Callable[[Image.Image], Image.Image]


@dataclass(frozen=True)
class SavedAgain:
    """Turn an image by quarter turns, resize it, save it as PNG or JPEG, and decode the bytes.

    Both sides change by `scale`, by at least one pixel unless it is 1. Resizing is bicubic and antialiased.
    """

    quarters: int = 0
    scale: float = 1.0
    jpeg_quality: int | None = None

    def __call__(self, image: Image.Image) -> Image.Image:
        image = _turn(image, self.quarters)
        if self.scale != 1:
            size = (_scale_side(image.width, self.scale), _scale_side(image.height, self.scale))
            image = image.resize(size, Image.Resampling.BICUBIC)
        return _save_and_decode(image, self.jpeg_quality)


@dataclass(frozen=True)
class RotatedFile:
    """Rotate an image about its center, save it as PNG or JPEG, and decode the bytes.

    Multiples of 90° are exact turns, other angles bicubic. `fill` is what the corners show. With `expand`, the canvas
    grows so that nothing is cut off, as in photo editors, and the corners are black.
    """

    angle: float
    fill: Fill = "black"
    expand: bool = False
    jpeg_quality: int | None = None

    def __call__(self, image: Image.Image) -> Image.Image:
        if self.angle % 90 == 0:
            rotated = _turn(image, round(self.angle / 90) % 4)
        elif self.fill == "reflect" and not self.expand:
            rotated = _rotate_reflected(image, self.angle)
        else:
            rotated = image.rotate(self.angle, Image.Resampling.BICUBIC, expand=self.expand)
        masked = _mask_outside_disk(rotated) if self.fill == "disk" and not self.expand else rotated
        return _save_and_decode(masked, self.jpeg_quality)


def change_files(dataset: ImageDataset, change: FileChange) -> ImageDataset:
    """Return the dataset with every image changed when it is decoded."""
    return replace(dataset, storage=_ChangedStorage(dataset.storage, change))


@dataclass(frozen=True)
class _ChangedStorage:
    storage: ImageStorage
    change: FileChange

    def content(self, i: int) -> bytes:
        return self.storage.content(i)

    def decode(self, i: int, content: bytes) -> Image.Image:
        return self.change(self.storage.decode(i, content))


def _turn(image: Image.Image, quarters: int) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(np.rot90(np.asarray(image), quarters)))


def _scale_side(side: int, scale: float) -> int:
    scaled = round(side * scale)
    return max(min(scaled, side - 1) if scale < 1 else max(scaled, side + 1), 1)


def _save_and_decode(image: Image.Image, jpeg_quality: int | None = None) -> Image.Image:
    stream = BytesIO()
    if jpeg_quality is None:
        image.save(stream, "PNG", compress_level=1)  # lossless at every level; 1 is the fastest
    else:
        image.save(stream, "JPEG", quality=jpeg_quality)
    return decode_image(stream.getvalue(), "the image that was saved again")


def _rotate_reflected(image: Image.Image, angle: float) -> Image.Image:
    """Rotate an image that continues beyond its edges as its mirror image."""
    diagonal = hypot(image.width, image.height)
    x, y = (ceil((diagonal - side) / 2) + 2 for side in (image.width, image.height))
    padded = Image.fromarray(np.pad(np.asarray(image), ((y, y), (x, x), (0, 0)), mode="symmetric"))
    rotated = padded.rotate(angle, Image.Resampling.BICUBIC)
    return rotated.crop((x, y, x + image.width, y + image.height))


def _mask_outside_disk(image: Image.Image) -> Image.Image:
    inside = inscribed_disk(image.height, image.width, torch.device("cpu")).numpy()
    return Image.fromarray(np.where(inside[..., None], np.asarray(image), np.uint8(0)))
