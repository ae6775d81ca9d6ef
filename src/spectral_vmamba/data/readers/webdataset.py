"""WebDataset shards: tar files with `key.jpg` beside `key.cls`, read at random by an index of their members.

Streaming readers shuffle through a buffer and cannot go on in the middle; with an index, every image has a number.
"""

import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import decode_image
from spectral_vmamba.data.readers.folder import SUFFIXES

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


@dataclass(frozen=True)
class Members:
    """Places in tar files: path, first byte, number of bytes."""

    places: Sequence[tuple[str, int, int]]

    def __call__(self, i: int) -> Image.Image:
        path, start, _ = self.places[i]
        return decode_image(self.content(i), name=f"{path} at {start}")

    def content(self, i: int) -> bytes:
        path, start, size = self.places[i]
        with open(path, "rb") as stream:
            stream.seek(start)
            return stream.read(size)


def read_shards(pattern: str) -> ImageDataset:
    """All images of the tar files that a pattern names: `{0000..0009}` counts, `*` and `?` as in a shell."""
    paths = [path for counted in _counted(pattern) for path in _matching(counted)]
    if not paths:
        raise ValueError(f"no tar files at {pattern}")
    places, labels, names = [], [], []
    for path in paths:
        for key, place, label in _members(path):
            places.append(place)
            labels.append(label)
            names.append(f"{path.name}/{key}")
    if not places:
        raise ValueError(f"no images with a .cls beside them in {pattern}")
    classes = tuple(str(i) for i in range(max(labels) + 1))
    return ImageDataset(classes, np.array(labels), names, [size for _, _, size in places], Members(places))


def _members(path: Path):
    images: dict[str, tuple[str, int, int]] = {}
    labels: dict[str, int] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                key, _, suffix = member.name.partition(".")
                if f".{suffix.lower()}" in SUFFIXES:
                    images[key] = (str(path), member.offset_data, member.size)
                elif suffix == "cls" and (stream := archive.extractfile(member)) is not None:
                    labels[key] = int(stream.read())
    except (tarfile.TarError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as an uncompressed tar file of images and .cls: {error}") from error
    for key, place in images.items():
        if key not in labels:
            raise ValueError(f"{path}: no {key}.cls beside the image")
        yield key, place, labels[key]


def _counted(pattern: str) -> list[str]:
    found = _RANGE.search(pattern)
    if not found:
        return [pattern]
    first, last = found.groups()
    numbers = (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    return [pattern[: found.start()] + number + pattern[found.end() :] for number in numbers]


def _matching(pattern: str) -> list[Path]:
    path = Path(pattern)
    return sorted(path.parent.glob(path.name)) if set("*?") & set(path.name) else [path]
