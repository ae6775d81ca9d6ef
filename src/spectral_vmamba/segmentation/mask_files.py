"""Masks of class ids as files, written row by row: palette PNG, and GeoTIFF with the georeference of the image.

A mask of any size takes the memory of the rows that are written at a time. Files appear when they are complete.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from jaxtyping import UInt8

from spectral_vmamba.segmentation.georeference import Georeference
from spectral_vmamba.utils.atomic_files import atomic_write
from spectral_vmamba.utils.extras import require

Color = tuple[int, int, int]
Palette = Sequence[Color]
WriteRows = Callable[[UInt8[np.ndarray, "rows width"]], None]

LARGEST_PALETTE = 256
_CHUNK_BYTES = 2**16
_UP = 2  # PNG's filter type: a row minus the one above, mostly zeros in a mask


@contextmanager
def write_png_mask(path: Path, height: int, width: int, palette: Palette) -> Iterator[WriteRows]:
    """Yield a function that appends rows of class ids to an 8-bit PNG whose palette has the color of each class.

    The file replaces `path` at the end of the block, after `height` rows; a shorter mask raises ValueError.
    """
    _check_palette(palette)
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        encoder = _PngEncoder(file, height, width, palette)
        rows = _RowCounter(path, height, width, len(palette))

        def write(ids: UInt8[np.ndarray, "rows width"]) -> None:
            rows.check(ids)
            encoder.write(ids)

        yield write
        rows.check_complete()
        encoder.finish()


@contextmanager
def write_geotiff_mask(
    path: Path, height: int, width: int, palette: Palette, georeference: Georeference
) -> Iterator[WriteRows]:
    """As `write_png_mask`, a compressed GeoTIFF with the same colors. Requires rasterio."""
    rasterio = require("rasterio", "geo")
    windows = require("rasterio.windows", "geo")
    _check_palette(palette)
    with (
        atomic_write(path) as temporary,
        rasterio.open(
            temporary,
            "w",
            driver="GTiff",
            height=height,
            width=width,
            count=1,
            dtype="uint8",
            crs=georeference.crs or None,
            transform=rasterio.Affine(*georeference.transform),
            compress="deflate",
            photometric="palette",
            bigtiff="if_safer",
        ) as dataset,
    ):
        dataset.write_colormap(1, {i: (*color, 255) for i, color in enumerate(palette)})
        rows = _RowCounter(path, height, width, len(palette))

        def write(ids: UInt8[np.ndarray, "rows width"]) -> None:
            top = rows.check(ids)
            dataset.write(ids, 1, window=windows.Window(0, top, width, len(ids)))

        yield write
        rows.check_complete()


class _RowCounter:
    """Checks that the rows fit the mask, and counts them."""

    def __init__(self, path: Path, height: int, width: int, classes: int):
        self.path, self.height, self.width, self.classes = path, height, width, classes
        self.written = 0

    def check(self, ids: UInt8[np.ndarray, "rows width"]) -> int:
        """Return the position of the first row."""
        if ids.dtype != np.uint8 or ids.ndim != 2 or ids.shape[1] != self.width:
            raise ValueError(f"expected rows (n, {self.width}) of uint8 for {self.path}, got {ids.dtype} {ids.shape}")
        if len(ids) > self.height - self.written:
            raise ValueError(f"more rows than the {self.height:,} of {self.path}")
        if ids.max(initial=0) >= self.classes:
            raise ValueError(f"the class id {ids.max()} for {self.path} has no color; there are {self.classes}")
        self.written += len(ids)
        return self.written - len(ids)

    def check_complete(self) -> None:
        if self.written != self.height:
            raise ValueError(f"{self.written:,} of {self.height:,} rows of {self.path} were written")


class _PngEncoder:
    """PNG (ISO/IEC 15948), color type 3, bit depth 8, not interlaced."""

    def __init__(self, file: IO[bytes], height: int, width: int, palette: Palette):
        self.file = file
        self.compressor = zlib.compressobj(6)
        self.previous = np.zeros((1, width), np.uint8)
        self.pending = bytearray()
        file.write(b"\x89PNG\r\n\x1a\n")
        self._write_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        self._write_chunk(b"PLTE", bytes(value for color in palette for value in color))

    def write(self, ids: UInt8[np.ndarray, "rows width"]) -> None:
        above = np.concatenate([self.previous, ids])
        lines = np.full((len(ids), ids.shape[1] + 1), _UP, np.uint8)
        lines[:, 1:] = ids - above[:-1]  # modulo 256
        self.previous = above[-1:].copy()
        self._append(self.compressor.compress(lines.tobytes()))

    def finish(self) -> None:
        self._append(self.compressor.flush())
        self._write_chunk(b"IDAT", bytes(self.pending))
        self._write_chunk(b"IEND", b"")

    def _append(self, compressed: bytes) -> None:
        self.pending += compressed
        while len(self.pending) > _CHUNK_BYTES:
            self._write_chunk(b"IDAT", bytes(self.pending[:_CHUNK_BYTES]))
            del self.pending[:_CHUNK_BYTES]

    def _write_chunk(self, kind: bytes, content: bytes) -> None:
        checksum = zlib.crc32(content, zlib.crc32(kind))
        self.file.write(struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum))


def _check_palette(palette: Palette) -> None:
    if not 1 <= len(palette) <= LARGEST_PALETTE:
        raise ValueError(f"expected 1 to {LARGEST_PALETTE} classes for a mask of 8 bits, got {len(palette)}")
    if any(len(color) != 3 or not all(0 <= value <= 255 for value in color) for color in palette):
        raise ValueError("expected colors (red, green, blue) from 0 to 255")
