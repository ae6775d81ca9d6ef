"""Labeled images that any process can open in any order: what every reader of data sets returns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Protocol

import numpy as np
from jaxtyping import Int
from PIL import Image


class Opener(Protocol):
    """Can be pickled, for workers."""

    def __call__(self, i: int) -> Image.Image:
        """The i-th image as RGB; ValueError if it is broken."""
        ...

    def content(self, i: int) -> bytes:
        """What the i-th image is stored as: changes whenever the image does. ValueError if it cannot be read."""
        ...


@dataclass(frozen=True, eq=False)
class ImageDataset:
    """`sizes` are bytes (or anything that changes with the contents) for the fingerprint."""

    classes: tuple[str, ...]
    labels: Int[np.ndarray, "n"]
    names: Sequence[str]
    sizes: Sequence[int]
    opener: Opener

    def __post_init__(self):
        if not len(self.labels) == len(self.names) == len(self.sizes):
            lengths = len(self.labels), len(self.names), len(self.sizes)
            raise ValueError(f"expected as many labels as names and sizes, got {lengths}")
        outside = self.labels[(self.labels < 0) | (self.labels >= len(self.classes))]
        if len(outside):
            raise ValueError(f"expected labels from 0 to {len(self.classes) - 1}, got {outside[0]}")

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, index: Int[np.ndarray, "k"]) -> "ImageDataset":
        return replace(
            self,
            labels=self.labels[index],
            names=[self.names[i] for i in index],
            sizes=[self.sizes[i] for i in index],
            opener=_Chosen(self.opener, np.asarray(index)),
        )

    def with_classes(self, classes: Sequence[str], why: str) -> "ImageDataset":
        """The same images, numbered by another list of classes that has all of theirs."""
        used = sorted({self.classes[label] for label in np.unique(self.labels)})
        unknown = [name for name in used if name not in classes]
        if unknown:
            raise ValueError(f"{why}: the class {unknown[0]!r} is not among {listed(classes)}")
        number = {name: i for i, name in enumerate(classes)}
        table = np.array([number.get(name, -1) for name in self.classes], dtype=np.int64)
        return replace(self, classes=tuple(classes), labels=table[self.labels])

    def digest(self, i: int) -> bytes:
        """Tells images apart by what they are stored as."""
        return sha256(self.opener.content(i)).digest()

    def fingerprint(self) -> str:
        """Tells data sets apart by names, labels, classes and sizes, without reading the images."""
        digest = sha256("\0".join(self.classes).encode())
        for name, size, label in zip(self.names, self.sizes, self.labels.tolist(), strict=True):
            digest.update(f"{name}\0{size}\0{label}\n".encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class _Chosen:
    opener: Opener
    index: Int[np.ndarray, "k"]

    def __call__(self, i: int) -> Image.Image:
        return self.opener(int(self.index[i]))

    def content(self, i: int) -> bytes:
        return self.opener.content(int(self.index[i]))


def listed(classes: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(map(repr, classes[:most]))
    return f"{shown} and {len(classes) - most} more" if len(classes) > most else shown
