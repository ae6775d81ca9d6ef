"""MaskedDataset: images with a class id for every pixel, which any process can open in any order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, UInt8
from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset, ImageStorage
from spectral_vmamba.segmentation.mask_decoding import IGNORE_INDEX, Color, MaskCoding, decode_mask
from spectral_vmamba.utils.wording import plural


@runtime_checkable
class MaskStorage(Protocol):
    """Where the masks of a dataset are stored. Must be picklable, for worker processes."""

    def content(self, i: int) -> bytes:
        """Return the stored bytes of mask i, which change whenever the mask does. ValueError if unreadable."""
        ...

    def decode(self, i: int, content: bytes) -> UInt8[np.ndarray, "h w"]:
        """Decode the bytes of mask i to class ids. ValueError if damaged."""
        ...


@dataclass(frozen=True)
class StoredMasks:
    """Mask files in folders or packs; `names` are for messages."""

    files: ImageStorage
    names: Sequence[str]
    coding: MaskCoding

    def content(self, i: int) -> bytes:
        return self.files.content(i)

    def decode(self, i: int, content: bytes) -> UInt8[np.ndarray, "h w"]:
        return decode_mask(content, self.names[i], self.coding)


@dataclass(frozen=True, eq=False)
class MaskedDataset:
    """Images with masks of class ids: indices into `classes`, or `ignore_index` for pixels that belong to no class.

    The images have no labels. `palette` is a color for each class. `mask_stamps` tell whether a mask changed, as the
    stamps of ImageDataset do.
    """

    images: ImageDataset
    masks: MaskStorage
    classes: tuple[str, ...]
    palette: tuple[Color, ...]
    mask_stamps: Sequence[int | str]
    ignore_index: int = IGNORE_INDEX

    def __post_init__(self):
        if len(self.images) != len(self.mask_stamps):
            raise ValueError(f"expected as many masks as images, got {len(self.mask_stamps)} and {len(self.images)}")
        if not len(self.classes) <= self.ignore_index <= 255:
            count = plural(len(self.classes), "class", "classes")
            raise ValueError(
                f"expected an ignore_index from the number of classes to 255, got {self.ignore_index} with {count}"
            )
        repeated = [name for name in self.classes if self.classes.count(name) > 1]
        if repeated:
            raise ValueError(f"expected different names of classes, got {repeated[0]!r} twice")
        if len(self.palette) != len(self.classes):
            raise ValueError(f"expected a color for each of {len(self.classes)} classes, got {len(self.palette)}")

    def __len__(self) -> int:
        return len(self.images)

    @property
    def names(self) -> Sequence[str]:
        return self.images.names

    def open(self, i: int) -> tuple[Image.Image, UInt8[np.ndarray, "h w"]]:
        """Read image i, as RGB, and its mask. Raises ValueError if one is unreadable or they do not match."""
        image = self.images.open(i)
        mask = self.masks.decode(i, self.masks.content(i))
        height, width = mask.shape
        if (width, height) != image.size:
            raise ValueError(
                f"the mask of {self.names[i]} has {width}×{height} pixels and the image {image.width}×{image.height} "
                f"(upright by its EXIF tag); expected the same size"
            )
        valid = np.arange(256) < len(self.classes)
        valid[self.ignore_index] = True
        if not valid[mask].all():
            raise ValueError(
                f"the mask of {self.names[i]} has the class id {mask[~valid[mask]][0]}; expected 0 to "
                f"{len(self.classes) - 1} for {plural(len(self.classes), 'class', 'classes')}, or {self.ignore_index} "
                f"for pixels to ignore"
            )
        return image, mask

    def subset(self, index: Int[np.ndarray, "k"]) -> "MaskedDataset":
        return replace(
            self,
            images=self.images.subset(index),
            masks=_Subset(self.masks, np.asarray(index)),
            mask_stamps=[self.mask_stamps[i] for i in index],
        )

    def fingerprint(self) -> str:
        """SHA-256 over names, classes, ignore index and the stamps of images and masks; does not read them."""
        digest = sha256(self.images.fingerprint().encode())
        digest.update(f"{self.ignore_index}\0".encode())
        for text in (*self.classes, "", *self.mask_stamps):
            digest.update(f"{text}\0".encode(errors="surrogateescape"))
        return digest.hexdigest()


@dataclass(frozen=True)
class _Subset:
    masks: MaskStorage
    index: Int[np.ndarray, "k"]

    def content(self, i: int) -> bytes:
        return self.masks.content(int(self.index[i]))

    def decode(self, i: int, content: bytes) -> UInt8[np.ndarray, "h w"]:
        return self.masks.decode(int(self.index[i]), content)


@cache
def default_palette(count: int) -> tuple[Color, ...]:
    """Colors that are easy to tell from each other, and from black and white.

    Each color is the one that is farthest from all before it, by the distance of CIELAB (Glasbey et al. 2007). The
    first ones are the same for any count.
    """
    levels = np.linspace(0, 255, 18).round().astype(np.int64)
    candidates = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
    positions = _to_lab(candidates)
    black, white = 0, len(candidates) - 1
    distances = np.linalg.norm(positions - positions[black], axis=1)
    chosen = [white]
    for _ in range(count):
        distances = np.minimum(distances, np.linalg.norm(positions - positions[chosen[-1]], axis=1))
        chosen.append(int(distances.argmax()))
    return tuple((int(red), int(green), int(blue)) for red, green, blue in candidates[chosen[1:]])


def _to_lab(colors: Int[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3"]:
    """From sRGB, 0 to 255, to CIELAB, with the white of D65."""
    values = colors / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratios = linear @ to_xyz.T / to_xyz.sum(axis=1)
    x, y, z = np.where(ratios > 216 / 24389, np.cbrt(ratios), (24389 / 27 * ratios + 16) / 116).T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)
