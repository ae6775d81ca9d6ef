"""NumPy packs: a whole dataset in one `.npz` file, without pickles. Three layouts:

- `data` (image files, concatenated), `offset` (n + 1 positions in it), `label`, `classes` (names; `cell_types` in packs
  with masks, where `classes` names the mask values), and optionally `split` (train and val or test);
- `sheet0`, `sheet1`, … (image files, each a grid of 100 × 100 small images, row by row) and `label`;
- `x_train`, `y_train`, `x_test`, `y_test`: pixel arrays (n, h, w) or (n, h, w, 3), 0 to 255.
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
from spectral_vmamba.data.readers.folder import divide_by_split

_SHEET_SIDE = 100


@dataclass(frozen=True)
class PackedFiles:
    data: UInt8[np.ndarray, "bytes"]
    offset: Int[np.ndarray, "n1"]

    def content(self, i: int) -> bytes:
        return self.data[self.offset[i] : self.offset[i + 1]].tobytes()

    def decode(self, i: int, content: bytes) -> Image.Image:
        return decode_image(content, f"image {i} of the pack")


@dataclass(frozen=True)
class PixelArrays:
    """(n, h, w) gray or (n, h, w, 3) RGB."""

    pixels: UInt8[np.ndarray, "n h w *rgb"]

    def content(self, i: int) -> bytes:
        return f"{self.pixels.shape[1:]}".encode() + self.pixels[i].tobytes()

    def decode(self, i: int, content: bytes) -> Image.Image:
        return Image.fromarray(self.pixels[i]).convert("RGB")


def read_npz(path: Path) -> dict[str, ImageDataset]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            pack = dict(stored)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as a NumPy pack without pickles: {error}") from error
    if {"data", "offset", "label"} <= pack.keys():
        return _read_files(pack, path)
    if {"sheet0", "label"} <= pack.keys():
        return {"all": _read_sheets(pack, path)}
    if {"x_train", "y_train", "x_test", "y_test"} <= pack.keys():
        splits = {"train": "train", "val": "test"}
        return {
            split: dataset_from_arrays(pack[f"x_{stored}"], pack[f"y_{stored}"], path.stem)
            for split, stored in splits.items()
        }
    raise ValueError(
        f"expected data, offset and label, or sheet0 and label, or x_train, y_train, x_test and y_test in {path}; "
        f"got {', '.join(sorted(pack))}"
    )


def dataset_from_arrays(
    pixels: np.ndarray, labels: np.ndarray, name: str, classes: tuple[str, ...] | None = None
) -> ImageDataset:
    """Images from arrays (n, h, w) or (n, h, w, 3) of 0 to 255."""
    pixels = np.ascontiguousarray(pixels.astype(np.uint8))
    labels = labels.astype(np.int64)
    names = [f"{name}#{i}" for i in range(len(labels))]
    stamps = [crc32(image) for image in pixels]
    return ImageDataset(classes or _number_classes(labels), labels, names, stamps, PixelArrays(pixels))


def _read_files(pack: Mapping[str, np.ndarray], path: Path) -> dict[str, ImageDataset]:
    offset, labels = pack["offset"].astype(np.int64), pack["label"].astype(np.int64)
    names = [f"{path.stem}#{i}" for i in range(len(labels))]
    storage = PackedFiles(pack["data"], offset)
    everything = ImageDataset(_class_names(pack, labels), labels, names, np.diff(offset).tolist(), storage)
    return divide_by_split(everything, pack["split"], str(path)) if "split" in pack else {"all": everything}


def _read_sheets(pack: Mapping[str, np.ndarray], path: Path) -> ImageDataset:
    count = sum(name.startswith("sheet") for name in pack)
    sheets = [np.asarray(decode_image(pack[f"sheet{k}"].tobytes(), f"{path} sheet{k}")) for k in range(count)]
    grids = [
        sheet.reshape(_SHEET_SIDE, sheet.shape[0] // _SHEET_SIDE, _SHEET_SIDE, sheet.shape[1] // _SHEET_SIDE, 3)
        for sheet in sheets
    ]
    pixels = np.concatenate([grid.swapaxes(1, 2).reshape(-1, grid.shape[1], grid.shape[3], 3) for grid in grids])
    labels = pack["label"].astype(np.int64)
    return dataset_from_arrays(pixels[: len(labels)], labels, path.stem, _class_names(pack, labels))


def _class_names(pack: Mapping[str, np.ndarray], labels: Int[np.ndarray, "n"]) -> tuple[str, ...]:
    names = pack.get("cell_types", pack.get("classes"))
    return _number_classes(labels) if names is None else tuple(map(str, names))


def _number_classes(labels: Int[np.ndarray, "n"]) -> tuple[str, ...]:
    return tuple(str(i) for i in range(int(labels.max()) + 1))
