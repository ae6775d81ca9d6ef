"""NumPy packs: a whole dataset in one `.npz` file, without pickles. Three layouts:

- `data` (image files, concatenated), `offset` (n + 1 positions in it), `label`, `classes` (names; `cell_types` in packs
  with masks, where `classes` names the mask values), and optionally `split` (train and val or test);
- `sheet0`, `sheet1`, … (image files, each a grid of 100 × 100 small images, row by row) and `label`;
- `x_train`, `y_train`, `x_test`, `y_test`: pixel arrays (n, h, w) or (n, h, w, 3), 0 to 255.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from jaxtyping import Int, UInt8
from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import decode_image
from spectral_vmamba.data.readers.folder import divide_by_split
from spectral_vmamba.data.readers.pack_arrays import MappedArray, Pack, open_pack, unpack

_SHEET_SIDE = 100


@dataclass(frozen=True)
class PackedFiles:
    data: UInt8[np.ndarray, "bytes"] | MappedArray
    offset: Int[np.ndarray, "n1"]

    def sizes(self) -> list[int]:
        return np.diff(self.offset).tolist()

    def content(self, i: int) -> bytes:
        return self.data[self.offset[i] : self.offset[i + 1]].tobytes()

    def decode(self, i: int, content: bytes) -> Image.Image:
        return decode_image(content, f"image {i} of the pack")


@dataclass(frozen=True)
class PixelArrays:
    """(n, h, w) gray or (n, h, w, 3) RGB."""

    pixels: UInt8[np.ndarray, "n h w *rgb"] | MappedArray

    def content(self, i: int) -> bytes:
        return f"{self.pixels.shape[1:]}".encode() + self.pixels[i].tobytes()

    def decode(self, i: int, content: bytes) -> Image.Image:
        return Image.fromarray(self.pixels[i]).convert("RGB")


def read_npz(path: Path) -> dict[str, ImageDataset]:
    """The datasets of a pack, by split. Images stay in the file, or in a temporary one: see `pack_arrays`."""
    with open_pack(path) as pack:
        if {"data", "offset", "label"} <= pack.names:
            return _read_files(pack)
        if {"sheet0", "label"} <= pack.names:
            return {"all": _read_sheets(pack)}
        if {"x_train", "y_train", "x_test", "y_test"} <= pack.names:
            return {"train": _read_pixels(pack, "train"), "val": _read_pixels(pack, "test")}
        names = ", ".join(sorted(pack.names))
    raise ValueError(
        f"expected data, offset and label, or sheet0 and label, or x_train, y_train, x_test and y_test in {path}; "
        f"got {names}"
    )


def map_files(pack: Pack, data_name: str, offset_name: str, count: int) -> PackedFiles:
    """The files of a pack, concatenated in one array, by their positions in it in another array."""
    data, offset = pack.map(data_name), pack.read(offset_name).astype(np.int64)
    if data.dtype != np.uint8 or len(data.shape) != 1:
        raise ValueError(f"expected {data_name} to hold bytes, got {data.dtype} of shape {data.shape}")
    if offset.shape != (count + 1,) or offset[0] < 0 or (np.diff(offset) < 0).any() or offset[-1] > len(data):
        raise ValueError(f"expected {offset_name} to hold {count + 1} ascending positions from 0 to {len(data)}")
    return PackedFiles(data, offset)


def dataset_from_arrays(
    pixels: np.ndarray, labels: np.ndarray, name: str, classes: tuple[str, ...] | None = None
) -> ImageDataset:
    """Images from arrays (n, h, w) or (n, h, w, 3) of 0 to 255."""
    pixels = np.ascontiguousarray(pixels.astype(np.uint8))
    return _pixel_dataset(PixelArrays(pixels), [crc32(image) for image in pixels], labels, name, classes)


def _pixel_dataset(
    storage: PixelArrays, stamps: list[int], labels: np.ndarray, name: str, classes: tuple[str, ...] | None
) -> ImageDataset:
    labels = labels.astype(np.int64)
    names = [f"{name}#{i}" for i in range(len(labels))]
    return ImageDataset(classes or _number_classes(labels), labels, names, stamps, storage)


def _read_files(pack: Pack) -> dict[str, ImageDataset]:
    labels = pack.read("label").astype(np.int64)
    files = map_files(pack, "data", "offset", len(labels))
    names = [f"{pack.path.stem}#{i}" for i in range(len(labels))]
    everything = ImageDataset(_class_names(pack, labels), labels, names, files.sizes(), files)
    return (
        divide_by_split(everything, pack.read("split"), str(pack.path))
        if "split" in pack.names
        else {"all": everything}
    )


def _read_pixels(pack: Pack, split: str) -> ImageDataset:
    pixels, labels = pack.map(f"x_{split}"), pack.read(f"y_{split}")
    if len(pixels.shape) not in (3, 4) or pixels.shape[3:] not in ((), (3,)):
        raise ValueError(f"expected x_{split} of shape (n, h, w) or (n, h, w, 3), got {pixels.shape}")
    if pixels.dtype != np.uint8:
        converted = (row.astype(np.uint8).tobytes() for row in pixels.rows())
        pixels = unpack(converted, pixels.shape, np.dtype(np.uint8), f"x_{split} of {pack.path}")
    stamps = [crc32(image.tobytes()) for image in pixels.rows()]
    return _pixel_dataset(PixelArrays(pixels), stamps, labels, pack.path.stem, None)


def _read_sheets(pack: Pack) -> ImageDataset:
    """The small images of all sheets are written to a temporary file, one sheet after the other."""
    labels = pack.read("label")
    stamps: list[int] = []
    height, width = _grid_of_sheet(pack, 0).shape[2:4]

    def images() -> Iterator[bytes]:
        for k in range(-(-len(labels) // _SHEET_SIDE**2)):
            grid = _grid_of_sheet(pack, k)
            if grid.shape[2:4] != (height, width):
                raise ValueError(f"sheet{k} has images of {grid.shape[2:4]} pixels, sheet0 of {(height, width)}")
            for image in grid.reshape(-1, height, width, 3)[: len(labels) - len(stamps)]:
                stamps.append(crc32(image))
                yield image.tobytes()

    pixels = unpack(images(), (len(labels), height, width, 3), np.dtype(np.uint8), f"the sheets of {pack.path}")
    return _pixel_dataset(PixelArrays(pixels), stamps, labels, pack.path.stem, _class_names(pack, labels))


def _grid_of_sheet(pack: Pack, k: int) -> UInt8[np.ndarray, "rows columns h w 3"]:
    if f"sheet{k}" not in pack.names:
        raise ValueError(f"there are more labels than images: sheet{k} is missing")
    sheet = np.asarray(decode_image(pack.read(f"sheet{k}").tobytes(), f"{pack.path} sheet{k}"))
    height, width = (side // _SHEET_SIDE for side in sheet.shape[:2])
    if sheet.shape != (height * _SHEET_SIDE, width * _SHEET_SIDE, 3):
        raise ValueError(f"expected sides that are multiples of {_SHEET_SIDE} in sheet{k}, got {sheet.shape[:2]}")
    grid = sheet.reshape(_SHEET_SIDE, height, _SHEET_SIDE, width, 3)
    return np.ascontiguousarray(grid.swapaxes(1, 2))


def _class_names(pack: Pack, labels: Int[np.ndarray, "n"]) -> tuple[str, ...]:
    stored = next((name for name in ("cell_types", "classes") if name in pack.names), None)
    return _number_classes(labels) if stored is None else tuple(map(str, pack.read(stored)))


def _number_classes(labels: Int[np.ndarray, "n"]) -> tuple[str, ...]:
    return tuple(str(i) for i in range(int(labels.max()) + 1))
