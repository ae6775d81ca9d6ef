"""The areas of the classes in each image, as a table."""

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from spectral_vmamba.segmentation.georeference import Georeference
from spectral_vmamba.utils.atomic_files import atomic_write

COLUMNS = ("image", "class", "pixels", "share", "square_map_units")
AddAreas = Callable[[str, Sequence[int], Georeference | None], None]


@contextmanager
def write_areas(path: Path, classes: Sequence[str]) -> Iterator[AddAreas]:
    """Yield a function that adds the number of pixels of each class in an image; the file appears at the end.

    One row per image and class, also for classes that do not occur. Shares are of the image, from 0 to 1; square map
    units are empty for images without a georeference.
    """
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8", errors="replace") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)

        def add(image: str, pixels: Sequence[int], georeference: Georeference | None = None) -> None:
            total = sum(pixels)
            for name, count in zip(classes, pixels, strict=True):
                area = count * georeference.pixel_area if georeference else ""
                writer.writerow([image, name, count, f"{count / total:.6f}", area])

        yield add
