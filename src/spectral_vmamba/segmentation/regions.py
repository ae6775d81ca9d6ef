"""Rectangles of an image: of a decoded one, or of a TIFF file of any size, read window by window with rasterio."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Shaped, UInt8
from PIL import Image, TiffImagePlugin
from torch import Tensor

from spectral_vmamba.data.decode import (
    LARGEST_PIXELS,
    ImageLike,
    TooManyPixelsError,
    decode_image,
    image_to_tensor,
    read_file,
    to_pil,
)
from spectral_vmamba.data.find import NamedImage
from spectral_vmamba.segmentation.georeference import Georeference
from spectral_vmamba.utils.extras import require

_TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0")  # the last one for files above 4 GB
_ORIENTATION, _PHOTOMETRIC, _BITS = 274, 262, 258
_DIRECT_COLORS = (1, 2, 6)  # gray with 0 as black, RGB, YCbCr
_CACHE_BYTES = 2**27  # of GDAL, whose default is a share of the memory
_SCAN_ROWS = 256


class RegionError(ValueError):
    """A part of an image cannot be read."""


@runtime_checkable
class ImageRegions(Protocol):
    """An image of which rectangles are read, as RGB of uint8."""

    height: int
    width: int
    georeference: Georeference | None

    def read(self, top: int, left: int, height: int, width: int) -> UInt8[Tensor, "3 h w"]: ...


@contextmanager
def open_regions(image: NamedImage | ImageLike, largest_pixels: int | None = None) -> Iterator[ImageRegions]:
    """Open a file, as it is displayed (EXIF orientation applied), or an image in memory.

    Files are decoded once. With rasterio, TIFF files are read window by window instead, with the same pixels. Raises
    ValueError or OSError, with the name of the file, if it cannot be read or has more than `largest_pixels`. None:
    files that are decoded as a whole have the usual limit, `LARGEST_PIXELS`, and the others none.
    """
    path = image.name if isinstance(image, NamedImage) else image
    if isinstance(path, (str, Path)) and Path(path).is_file():
        if _reads_by_windows(Path(path)):
            with _open_tiff(Path(path), largest_pixels) as tiff:
                yield tiff
        else:
            try:
                with _no_pillow_limit():
                    decoded = decode_image(read_file(path), str(path), largest_pixels or LARGEST_PIXELS)
            except TooManyPixelsError as error:
                advice = "allow more with --largest-pixels, or save it as TIFF and install rasterio to read it in parts"
                raise ValueError(f"{error}; {advice}") from error
            yield DecodedRegions(decoded, _find_georeference(Path(path)))
    else:
        yield DecodedRegions(image.open() if isinstance(image, NamedImage) else to_pil(image))


class DecodedRegions:
    """Rectangles of an RGB image in memory."""

    def __init__(self, image: Image.Image, georeference: Georeference | None = None):
        self.georeference, self.image = georeference, image
        self.width, self.height = image.size

    def read(self, top: int, left: int, height: int, width: int) -> UInt8[Tensor, "3 h w"]:
        return image_to_tensor(self.image.crop((left, top, left + width, top + height)))


class TiffRegions:
    """Rectangles of an open rasterio dataset, converted to 8-bit RGB as `decode_image` does.

    One or two bands are gray, three or more red, green and blue; a band that is marked as alpha is drawn on white.
    """

    def __init__(self, dataset: Any, name: str):
        self.dataset, self.name = dataset, name
        self.height, self.width = dataset.height, dataset.width
        self.georeference = _read_georeference(dataset)
        colors = [i for i, kind in zip(dataset.indexes, dataset.colorinterp, strict=True) if kind.name != "alpha"]
        self.bands = colors[:3] if len(colors) >= 3 else colors[:1]
        self.alpha = next((i for i in dataset.indexes if i not in colors), None)
        if not self.bands:
            raise ValueError(f"{name} has no band of colors")
        self.factor = self._find_factor()

    def read(self, top: int, left: int, height: int, width: int) -> UInt8[Tensor, "3 h w"]:
        bands = self.bands if self.alpha is None else [*self.bands, self.alpha]
        values = self._to_8_bits(self._read_bands(bands, top, left, height, width))
        return image_to_tensor(to_pil(np.moveaxis(values, 0, -1)))

    def _read_bands(self, bands: list[int], top: int, left: int, height: int, width: int) -> np.ndarray:
        windows = require("rasterio.windows", "geo")
        try:
            return self.dataset.read(bands, window=windows.Window(left, top, width, height))
        except (OSError, ValueError, MemoryError) as error:
            raise RegionError(f"{self.name} cannot be read at row {top:,}, column {left:,}: {error}") from error

    def _find_factor(self) -> float:
        """What values are multiplied by, from the largest value of the image, which may take a pass over it.

        The rules of `decode_image`: 16-bit values lose their lower eight bits; in gray images, values up to 255 are
        kept; larger values, or fractions, are scaled by the largest one.
        """
        dtype = np.dtype(self.dataset.dtypes[0])
        if dtype == np.uint8:
            return 1.0
        if dtype == np.uint16 and len(self.bands) == 3:
            return 1 / 256
        largest, fractions = 0.0, False
        for top in range(0, self.height, _SCAN_ROWS):
            rows = min(_SCAN_ROWS, self.height - top)
            values = _nonnegative(self._read_bands(self.bands, top, 0, rows, self.width))
            largest = max(largest, float(values.max(initial=0)))
            fractions = fractions or bool((values != np.floor(values)).any())
            if dtype == np.uint16 and largest > 255:
                break
        if largest > 0xFFFF or (0 < largest <= 1 and fractions):
            return 255 / largest
        return 1 / 256 if largest > 255 else 1.0

    def _to_8_bits(self, values: Shaped[np.ndarray, "bands h w"]) -> UInt8[np.ndarray, "bands h w"]:
        return values if values.dtype == np.uint8 else (_nonnegative(values) * self.factor).astype(np.uint8)


def _nonnegative(values: np.ndarray) -> np.ndarray:
    return np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0).clip(0)


@contextmanager
def _open_tiff(path: Path, largest_pixels: int | None) -> Iterator[TiffRegions]:
    with _open_dataset(path) as dataset:
        if largest_pixels is not None and dataset.width * dataset.height > largest_pixels:
            size = f"{dataset.width}×{dataset.height} pixels"
            raise ValueError(f"{path} has {size}, more than the limit of {largest_pixels:,}")
        yield TiffRegions(dataset, str(path))


@contextmanager
def _open_dataset(path: Path) -> Iterator[Any]:
    rasterio = require("rasterio", "geo")
    with rasterio.Env(GDAL_CACHEMAX=_CACHE_BYTES):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
                dataset = rasterio.open(path, driver="GTiff")
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} cannot be read as an image: {error}") from error
        with dataset:
            yield dataset


def _reads_by_windows(path: Path) -> bool:
    """Whether rasterio gives the pixels of the file as they are displayed: a TIFF that its orientation does not turn,
    without a palette or other colors that have to be converted, with whole bytes."""
    tags = _tags_for_rasterio(path)
    if tags is None or tags.get(_ORIENTATION, 1) != 1:
        return False
    return tags.get(_PHOTOMETRIC, 1) in _DIRECT_COLORS and all(np.atleast_1d(tags.get(_BITS, 1)) % 8 == 0)


def _find_georeference(path: Path) -> Georeference | None:
    """That of a TIFF file which is decoded as a whole, such as one with a palette; None if its orientation turns it."""
    tags = _tags_for_rasterio(path)
    if tags is None or tags.get(_ORIENTATION, 1) != 1:
        return None
    try:
        with _open_dataset(path) as dataset:
            return _read_georeference(dataset)
    except ValueError:  # GDAL cannot open it, Pillow can
        return None


def _tags_for_rasterio(path: Path) -> TiffImagePlugin.ImageFileDirectory_v2 | None:
    """The tags of the first image of a TIFF file; None for other files, for damaged ones and without rasterio."""
    if find_spec("rasterio") is None:
        return None
    try:
        with path.open("rb") as file, warnings.catch_warnings(action="ignore"):
            header = file.read(8)
            if header[:4] not in _TIFF_MAGIC:
                return None
            tags = TiffImagePlugin.ImageFileDirectory_v2(header + (file.read(8) if header[2] == 43 else b""))
            file.seek(tags.next)
            tags.load(file)
            return tags
    except Exception:  # a damaged header: decoding it explains what is wrong
        return None


def _read_georeference(dataset: Any) -> Georeference | None:
    if dataset.transform.is_identity and not dataset.crs:
        return None
    crs = dataset.crs
    code = crs.to_authority() if crs else None
    name = ":".join(code) if code else crs.to_wkt() if crs else ""
    a, b, c, d, e, f, *_ = (float(value) for value in dataset.transform)
    return Georeference((a, b, c, d, e, f), name)


@contextmanager
def _no_pillow_limit() -> Iterator[None]:
    """Turn off Pillow's own limit of pixels, which is global: `decode_image` checks ours before it decodes."""
    previous, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = previous
