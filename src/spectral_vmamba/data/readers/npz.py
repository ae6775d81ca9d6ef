"""NumPy packs: a whole data set in one `.npz` file, without pickles. Three layouts are read:

- `data` (bytes of image files, one after the other), `offset` (n + 1 places in it), `label`, `classes` (their names;
  in packs with masks, whose values these name, `cell_types`), and `split` (train and val or test) if it has one;
- `sheet0`, `sheet1`, … (each the bytes of one image file that holds 100 × 100 small images, row by row) and `label`;
- `x_train`, `y_train`, `x_test`, `y_test`: arrays of pixels (n, h, w) or (n, h, w, 3), 0 to 255.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from jaxtyping import Int, UInt8
from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import decode_image
from spectral_vmamba.data.readers.folder import by_split

_SHEET = 100  # images a side


@dataclass(frozen=True)
class Packed:
    data: UInt8[np.ndarray, "bytes"]
    offset: Int[np.ndarray, "n1"]

    def __call__(self, i: int) -> Image.Image:
        return decode_image(self.content(i), name=f"image {i} of the pack")

    def content(self, i: int) -> bytes:
        return self.data[self.offset[i] : self.offset[i + 1]].tobytes()


@dataclass(frozen=True)
class Pixels:
    """(n, h, w) gray or (n, h, w, 3) RGB."""

    pixels: UInt8[np.ndarray, "n h w *rgb"]

    def __call__(self, i: int) -> Image.Image:
        return Image.fromarray(self.pixels[i]).convert("RGB")

    def content(self, i: int) -> bytes:
        return f"{self.pixels.shape[1:]}".encode() + self.pixels[i].tobytes()


def read_pack(path: Path) -> dict[str, ImageDataset]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            pack = dict(stored)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as a NumPy pack without pickles: {error}") from error
    if {"data", "offset", "label"} <= pack.keys():
        return _files(pack, path)
    if {"sheet0", "label"} <= pack.keys():
        return {"all": _sheets(pack, path)}
    if {"x_train", "y_train", "x_test", "y_test"} <= pack.keys():
        parts = {"train": "train", "val": "test"}
        return {ours: of_pixels(pack[f"x_{theirs}"], pack[f"y_{theirs}"], path.stem) for ours, theirs in parts.items()}
    raise ValueError(
        f"expected data, offset and label, or sheet0 and label, or x_train, y_train, x_test and y_test in {path}; "
        f"got {', '.join(sorted(pack))}"
    )


def of_pixels(
    pixels: np.ndarray, labels: np.ndarray, name: str, classes: tuple[str, ...] | None = None
) -> ImageDataset:
    """ImageDataset from arrays (n, h, w) or (n, h, w, 3) of 0 to 255."""
    pixels = np.ascontiguousarray(pixels.astype(np.uint8))
    labels = labels.astype(np.int64)
    classes = classes or _numbered(labels)
    names = [f"{name}#{i}" for i in range(len(labels))]
    return ImageDataset(classes, labels, names, [crc32(image) for image in pixels], Pixels(pixels))


def _files(pack: Mapping[str, np.ndarray], path: Path) -> dict[str, ImageDataset]:
    offset, labels = pack["offset"].astype(np.int64), pack["label"].astype(np.int64)
    classes = _classes(pack, labels)
    names = [f"{path.stem}#{i}" for i in range(len(labels))]
    everything = ImageDataset(classes, labels, names, np.diff(offset).tolist(), Packed(pack["data"], offset))
    return by_split(everything, pack["split"], str(path)) if "split" in pack else {"all": everything}


def _sheets(pack: Mapping[str, np.ndarray], path: Path) -> ImageDataset:
    count = sum(name.startswith("sheet") for name in pack)
    sheets = [np.asarray(decode_image(pack[f"sheet{k}"].tobytes(), name=f"{path} sheet{k}")) for k in range(count)]
    cut = [
        sheet.reshape(_SHEET, sheet.shape[0] // _SHEET, _SHEET, sheet.shape[1] // _SHEET, 3).swapaxes(1, 2)
        for sheet in sheets
    ]
    pixels = np.concatenate([sheet.reshape(-1, *sheet.shape[2:]) for sheet in cut])
    labels = pack["label"].astype(np.int64)
    return of_pixels(pixels[: len(labels)], labels, path.stem, _classes(pack, labels))


def _classes(pack: Mapping[str, np.ndarray], labels: Int[np.ndarray, "n"]) -> tuple[str, ...]:
    named = pack.get("cell_types", pack.get("classes"))
    return _numbered(labels) if named is None else tuple(map(str, named))


def _numbered(labels: Int[np.ndarray, "n"]) -> tuple[str, ...]:
    return tuple(str(i) for i in range(int(labels.max()) + 1))
