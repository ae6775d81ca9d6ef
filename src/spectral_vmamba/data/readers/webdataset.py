"""WebDataset shards: tar files with `key.jpg` next to `key.cls`, read in any order through an index of their members.

Streaming readers shuffle through a buffer and cannot resume in the middle; with an index, every image has a number.
"""

import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import decode_image
from spectral_vmamba.data.readers.folder_listing import SUFFIXES

_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


@dataclass(frozen=True)
class TarMembers:
    """Positions in tar files: path, first byte, number of bytes."""

    positions: Sequence[tuple[str, int, int]]

    def content(self, i: int) -> bytes:
        path, start, size = self.positions[i]
        with open(path, "rb") as stream:
            stream.seek(start)
            return stream.read(size)

    def decode(self, i: int, content: bytes) -> Image.Image:
        path, start, _ = self.positions[i]
        return decode_image(content, f"{path} at byte {start}")


def read_shards(pattern: str) -> ImageDataset:
    """All images of the tar files that match a pattern: `{0000..0009}` counts, `*` and `?` are as in a shell."""
    paths = [path for part in _expand_range(pattern) for path in _expand_wildcards(part)]
    if not paths:
        raise ValueError(f"no tar files at {pattern}")
    positions, labels, names = [], [], []
    for path in paths:
        for key, position, label in _index_members(path):
            positions.append(position)
            labels.append(label)
            names.append(f"{path.name}/{key}")
    if not positions:
        raise ValueError(f"no images with a .cls file next to them in {pattern}")
    classes = tuple(str(i) for i in range(max(labels) + 1))
    stamps = [size for _, _, size in positions]
    return ImageDataset(classes, np.array(labels), names, stamps, TarMembers(positions))


def _index_members(path: Path) -> Iterator[tuple[str, tuple[str, int, int], int]]:
    positions: dict[str, tuple[str, int, int]] = {}
    labels: dict[str, int] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                key, _, suffix = member.name.partition(".")
                if f".{suffix.lower()}" in SUFFIXES:
                    positions[key] = (str(path), member.offset_data, member.size)
                elif suffix == "cls" and (stream := archive.extractfile(member)) is not None:
                    labels[key] = int(stream.read())
    except (tarfile.TarError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as an uncompressed tar file of images and .cls: {error}") from error
    for key, position in positions.items():
        if key not in labels:
            raise ValueError(f"{path}: no {key}.cls next to the image")
        yield key, position, labels[key]


def _expand_range(pattern: str) -> list[str]:
    match = _RANGE.search(pattern)
    if not match:
        return [pattern]
    first, last = match.groups()
    numbers = (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    return [pattern[: match.start()] + number + pattern[match.end() :] for number in numbers]


def _expand_wildcards(pattern: str) -> list[Path]:
    path = Path(pattern)
    return sorted(path.parent.glob(path.name)) if set("*?") & set(path.name) else [path]
