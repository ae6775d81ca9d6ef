"""Segment image files of any size, and write what is asked for: masks, overlays, polygons and areas."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from spectral_vmamba.data.find import NamedImage
from spectral_vmamba.data.unreadable import ReadError, write_unreadable
from spectral_vmamba.segmentation.areas import AddAreas, write_areas
from spectral_vmamba.segmentation.mask_files import LARGEST_PALETTE, WriteRows, write_geotiff_mask, write_png_mask
from spectral_vmamba.segmentation.output_names import output_stems
from spectral_vmamba.segmentation.overlays import OverlayCanvas
from spectral_vmamba.segmentation.polygon_files import CocoFile, write_coco, write_geojson
from spectral_vmamba.segmentation.polygons import find_polygons
from spectral_vmamba.segmentation.regions import ImageRegions, RegionError, open_regions
from spectral_vmamba.segmentation.windows import blend_windows, class_probabilities
from spectral_vmamba.utils.atomic_files import atomic_write, only_writer, prepare_folder
from spectral_vmamba.utils.progress import Progress, no_progress
from spectral_vmamba.utils.wording import at_least

OutputFormat = Literal["mask", "overlay", "geojson", "coco", "areas"]
COCO_FILE, AREAS_FILE = "coco.json", "areas.csv"
_FOLDERS = {"mask": "masks", "overlay": "overlays", "geojson": "polygons"}
_JPEG: dict[str, Any] = {"format": "JPEG", "quality": 92, "subsampling": 0}


@runtime_checkable
class Segmenter(Protocol):
    """A network for segmentation, as `predict_files` uses it."""

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def palette(self) -> tuple[tuple[int, int, int], ...]:
        """The color of each class, red, green, blue, from 0 to 255."""
        ...

    @property
    def window(self) -> int:
        """Height and width of the windows of larger images."""
        ...

    def scores(self, images: UInt8[Tensor, "b 3 h w"]) -> Float[Tensor, "b classes h w"]:
        """Logits of images of any height and width up to the window."""
        ...


@dataclass(frozen=True)
class PredictOptions:
    """What to write for each image, and how.

    >>> PredictOptions("masks", formats=("mask", "geojson")).overlap
    0.25
    """

    output: str
    """output folder; files of an earlier run are replaced"""
    formats: tuple[OutputFormat, ...] = ("mask", "overlay")
    """mask: class ids as a PNG with the colors of the classes, and as a GeoTIFF if the image is georeferenced; overlay:
    the image with the classes as colors and a legend; geojson: polygons of each image; coco: polygons of all images in
    one file; areas: pixels of each class as a CSV"""
    window: int | None = None
    """height and width in pixels of the windows that larger images are cut into; defaults to the network's"""
    overlap: float = 0.25
    """share of a window that neighboring windows have in common, at least; from 0 to less than 1"""
    batch_size: int = 4
    """windows per batch"""
    min_area: int = 1
    """pixels of the smallest region that becomes a polygon"""
    simplify: float = 0.0
    """largest distance in pixels between a polygon and the outline of its region; 0: exact"""
    largest_pixels: int | None = None
    """images of more pixels are reported as unreadable. Defaults to 100 million for files that are read as a whole, and
    to no limit for TIFF files, which are read in parts if rasterio is installed"""

    def __post_init__(self):
        at_least(1, window=self.window, batch_size=self.batch_size, min_area=self.min_area)
        at_least(1, largest_pixels=self.largest_pixels)
        at_least(0, simplify=self.simplify)
        if not 0 <= self.overlap < 1:
            raise ValueError(f"expected an overlap from 0 to less than 1, got {self.overlap}")
        unknown = [name for name in self.formats if name not in get_args(OutputFormat)]
        if unknown or not self.formats:
            known = ", ".join(get_args(OutputFormat))
            raise ValueError(f"expected formats of {known}; got {', '.join(unknown) or 'none'}")


@dataclass(frozen=True)
class SegmentedFile:
    """An image that was segmented: its size, the number of pixels of each class, and the files that were written."""

    index: int
    name: str
    height: int
    width: int
    pixels: tuple[int, ...]
    files: tuple[Path, ...]


FileOutcome = SegmentedFile | ReadError


def predict_files(
    segmenter: Segmenter,
    names: Iterable[NamedImage],
    options: PredictOptions,
    progress: Progress = no_progress,
) -> Iterator[FileOutcome]:
    """Segment images one after the other; yield what became of each, in order.

    Below the output folder, `masks/`, `overlays/` and `polygons/` have the folders and names of the images;
    `coco.json`, `areas.csv` and `unreadable.txt`, which lists images that cannot be read, are written after the last
    image. A name that is given twice is read once. Every file appears when it is complete. Raises OSError if another
    process is writing to the folder.
    """
    _check_classes(segmenter)
    images = list({image.name: image for image in names}.values())
    folder = Path(options.output)
    unreadable: list[ReadError] = []
    with ExitStack() as stack:
        stack.enter_context(only_writer(folder, "output folder"))  # leftovers are removed below
        prepare_folder(folder, "output folder")
        coco = areas = None
        if "coco" in options.formats:
            coco = stack.enter_context(write_coco(folder / COCO_FILE, segmenter.classes))
        if "areas" in options.formats:
            areas = stack.enter_context(write_areas(folder / AREAS_FILE, segmenter.classes))
        job = _Job(segmenter, options, folder, coco, areas, progress)
        stems = output_stems([image.name for image in images])
        job.prepare_folders(stems)
        for index, image in enumerate(progress(images, "segmenting", len(images))):
            try:
                outcome = job.segment(index, image, stems[index])
            except _Unreadable as error:
                outcome = ReadError.from_exception(index, image.name, error)
                unreadable.append(outcome)
            yield outcome
    write_unreadable(folder, unreadable)


class _Unreadable(Exception):
    """The image cannot be read; other errors are not the image's."""


@dataclass(frozen=True)
class _Job:
    """Everything that the images of a call have in common."""

    segmenter: Segmenter
    options: PredictOptions
    folder: Path
    coco: CocoFile | None
    areas: AddAreas | None
    progress: Progress

    def prepare_folders(self, stems: Iterable[Path]) -> None:
        """Create the folders of all output files, and remove leftovers of a killed run."""
        parents = {stem.parent for stem in stems}
        for kind in (_FOLDERS[name] for name in self.options.formats if name in _FOLDERS):
            for parent in sorted(parents):
                prepare_folder(self.folder / kind / parent, "output folder")

    def segment(self, index: int, image: NamedImage, stem: Path) -> SegmentedFile:
        with ExitStack() as opened:
            try:
                regions = opened.enter_context(open_regions(image, self.options.largest_pixels))
            except (ValueError, OSError) as error:
                raise _Unreadable(str(error)) from error
            try:
                return self._write(index, image.name, regions, stem)
            except RegionError as error:
                raise _Unreadable(str(error)) from error

    def _write(self, index: int, name: str, regions: ImageRegions, stem: Path) -> SegmentedFile:
        formats, palette = self.options.formats, self.segmenter.palette
        size = (regions.height, regions.width)
        pixels = np.zeros(len(palette), np.int64)
        mask = np.empty(size, np.uint8) if {"geojson", "coco"} & set(formats) else None
        overlay = OverlayCanvas(*size, palette) if "overlay" in formats else None
        files: list[Path] = []
        with ExitStack() as stack:
            writers = self._open_masks(stack, regions, stem, files) if "mask" in formats else []
            for top, ids in self._class_ids(regions):
                pixels += np.bincount(ids.reshape(-1), minlength=len(palette))
                for write in writers:
                    write(ids)
                if mask is not None:
                    mask[top : top + len(ids)] = ids
                if overlay is not None:
                    overlay.add(regions.read(top, 0, len(ids), regions.width).numpy(), ids)
            if overlay is not None:
                files.append(self._save_overlay(overlay.draw(self.segmenter.classes), stem))
        if mask is not None:
            files += self._write_polygons(name, mask, regions, stem)
        counts = tuple(pixels.tolist())
        if self.areas is not None:
            self.areas(name, counts, regions.georeference)
        return SegmentedFile(index, name, *size, counts, tuple(files))

    def _class_ids(self, regions: ImageRegions) -> Iterator[tuple[int, UInt8[np.ndarray, "rows width"]]]:
        """The most probable classes, strip by strip. An image that fits a window is one, at its own size."""
        height, width = regions.height, regions.width
        window = self.options.window or self.segmenter.window
        scores = self.segmenter.scores
        if max(height, width) <= window:
            (whole,) = class_probabilities(scores, regions.read(0, 0, height, width)[None])
            yield 0, whole.argmax(0).astype(np.uint8)
            return
        overlap = min(round(self.options.overlap * window), window - 1)
        strips = blend_windows(
            regions.read, height, width, window, overlap, scores, self.options.batch_size, self.progress
        )
        for top, probabilities in strips:
            yield top, probabilities.numpy().argmax(0).astype(np.uint8)

    def _open_masks(self, stack: ExitStack, regions: ImageRegions, stem: Path, files: list[Path]) -> list[WriteRows]:
        size, palette = (regions.height, regions.width), self.segmenter.palette
        files.append(self._place("mask", stem, ".png"))
        writers = [stack.enter_context(write_png_mask(files[-1], *size, palette))]
        if regions.georeference is not None:
            files.append(self._place("mask", stem, ".tif"))
            writers.append(stack.enter_context(write_geotiff_mask(files[-1], *size, palette, regions.georeference)))
        return writers

    def _save_overlay(self, overlay: Image.Image, stem: Path) -> Path:
        path = self._place("overlay", stem, ".jpg")
        with atomic_write(path) as temporary:
            overlay.save(temporary, **_JPEG)
        return path

    def _write_polygons(
        self, name: str, mask: UInt8[np.ndarray, "h w"], regions: ImageRegions, stem: Path
    ) -> list[Path]:
        polygons, simplify = find_polygons(mask, self.options.min_area), self.options.simplify
        if self.coco is not None:
            self.coco.add(name, regions.height, regions.width, polygons, simplify)
        if "geojson" not in self.options.formats:
            return []
        path = self._place("geojson", stem, ".geojson")
        write_geojson(path, name, polygons, self.segmenter.classes, regions.georeference, simplify)
        return [path]

    def _place(self, name: OutputFormat, stem: Path, suffix: str) -> Path:
        return self.folder / _FOLDERS[name] / stem.parent / (stem.name + suffix)


def _check_classes(segmenter: Segmenter) -> None:
    if len(segmenter.classes) > LARGEST_PALETTE:
        raise ValueError(
            f"expected at most {LARGEST_PALETTE} classes, which a mask of 8 bits holds; got {len(segmenter.classes)}"
        )
    if len(segmenter.palette) != len(segmenter.classes):
        raise ValueError(f"expected {len(segmenter.classes)} colors, one per class; got {len(segmenter.palette)}")
