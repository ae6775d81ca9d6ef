"""ImageDataset: images that any process can open in any order. Every reader returns one."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import accumulate
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int
from PIL import Image

UNLABELED = -1


@runtime_checkable
class ImageStorage(Protocol):
    """Where the images of a dataset are stored. Must be picklable, for worker processes."""

    def content(self, i: int) -> bytes:
        """Return the stored bytes of image i, which change whenever the image does. ValueError if unreadable."""
        ...

    def decode(self, i: int, content: bytes) -> Image.Image:
        """Decode the bytes of image i to RGB. ValueError if damaged."""
        ...


@dataclass(frozen=True, eq=False)
class ImageDataset:
    """Images with names and, where known, labels.

    `labels` are indices into `classes`, `UNLABELED` where an image has none. `stamps` tell whether an image changed
    without reading it: a size in bytes, a checksum, or size and modification time. `root` is the folder that the names
    are relative to, None for images that are not files of their own.
    """

    classes: tuple[str, ...]
    labels: Int[np.ndarray, "n"]
    names: Sequence[str]
    stamps: Sequence[int | str]
    storage: ImageStorage
    root: str | None = None

    def __post_init__(self):
        if not len(self.labels) == len(self.names) == len(self.stamps):
            lengths = len(self.labels), len(self.names), len(self.stamps)
            raise ValueError(f"expected as many labels as names and stamps, got {lengths}")
        outside = self.labels[(self.labels < UNLABELED) | (self.labels >= len(self.classes))]
        if len(outside):
            raise ValueError(f"expected labels from 0 to {len(self.classes) - 1}, got {outside[0]}")

    def __len__(self) -> int:
        return len(self.labels)

    def open(self, i: int) -> Image.Image:
        """Read and decode image i as RGB. Raises ValueError if it is unreadable."""
        return self.storage.decode(i, self.storage.content(i))

    def label_name(self, i: int) -> str | None:
        return self.classes[self.labels[i]] if self.labels[i] != UNLABELED else None

    def subset(self, index: Int[np.ndarray, "k"]) -> "ImageDataset":
        return replace(
            self,
            labels=self.labels[index],
            names=[self.names[i] for i in index],
            stamps=[self.stamps[i] for i in index],
            storage=_Subset(self.storage, np.asarray(index)),
        )

    def with_classes(self, classes: Sequence[str], context: str) -> "ImageDataset":
        """The same images with labels that index another list of classes, which must contain all of theirs."""
        labeled = self.labels != UNLABELED
        used = sorted({self.classes[label] for label in np.unique(self.labels[labeled])})
        unknown = [name for name in used if name not in classes]
        if unknown:
            raise ValueError(f"{context}: the class {unknown[0]!r} is not one of {format_classes(classes)}")
        number = {name: i for i, name in enumerate(classes)}
        table = np.array([*(number.get(name, UNLABELED) for name in self.classes), UNLABELED], dtype=np.int64)
        return replace(self, classes=tuple(classes), labels=table[self.labels])  # index −1 is the appended entry

    def fingerprint(self) -> str:
        """SHA-256 over names, labels, classes and stamps; does not read the images."""
        digest = sha256("\0".join(self.classes).encode(errors="surrogateescape"))
        for name, stamp, label in zip(self.names, self.stamps, self.labels.tolist(), strict=True):
            digest.update(f"{name}\0{stamp}\0{label}\n".encode(errors="surrogateescape"))
        return digest.hexdigest()


def digest_content(content: bytes) -> bytes:
    """Identify an image by its stored bytes."""
    return sha256(content).digest()


def concatenate(
    datasets: Sequence[ImageDataset], names: Sequence[str], stamps: Sequence[int | str], root: str | None
) -> ImageDataset:
    """All images, one dataset after the other, under new names and stamps."""
    classes = tuple(dict.fromkeys(name for dataset in datasets for name in dataset.classes))
    labels = [dataset.with_classes(classes, "cannot concatenate").labels for dataset in datasets]
    starts = tuple(accumulate((len(dataset) for dataset in datasets), initial=0))[:-1]
    storage = _Concatenation(tuple(dataset.storage for dataset in datasets), starts)
    return ImageDataset(classes, np.concatenate(labels), names, stamps, storage, root)


def format_classes(classes: Sequence[str], limit: int = 8) -> str:
    """Class names for a message, shortened after `limit`."""
    shown = ", ".join(map(repr, classes[:limit]))
    return f"{shown} and {len(classes) - limit} more" if len(classes) > limit else shown


@dataclass(frozen=True)
class _Subset:
    storage: ImageStorage
    index: Int[np.ndarray, "k"]

    def content(self, i: int) -> bytes:
        return self.storage.content(int(self.index[i]))

    def decode(self, i: int, content: bytes) -> Image.Image:
        return self.storage.decode(int(self.index[i]), content)


@dataclass(frozen=True)
class _Concatenation:
    storages: tuple[ImageStorage, ...]
    starts: tuple[int, ...]

    def content(self, i: int) -> bytes:
        storage, i = self._locate(i)
        return storage.content(i)

    def decode(self, i: int, content: bytes) -> Image.Image:
        storage, i = self._locate(i)
        return storage.decode(i, content)

    def _locate(self, i: int) -> tuple[ImageStorage, int]:
        part = bisect_right(self.starts, i) - 1
        return self.storages[part], i - self.starts[part]
