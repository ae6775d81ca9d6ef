"""Datasets by timm's names: `torch/…` (torchvision) and `hfds/…` (Hugging Face); downloaded if missing."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset

PREFIXES = ("torch/", "hfds/")
_HOME = Path.home() / ".cache" / "spectral_vmamba" / "data"


@dataclass(frozen=True)
class DatasetItems:
    """Items of a torchvision or timm dataset, which decodes by itself: the content is the size and the pixels."""

    dataset: Any

    def content(self, i: int) -> bytes:
        try:
            image = self.dataset[i][0].convert("RGB")
        except (OSError, SyntaxError) as error:
            raise ValueError(f"item {i} cannot be read as an image: {error}") from error
        return f"{image.size}".encode() + image.tobytes()

    def decode(self, i: int, content: bytes) -> Image.Image:
        size, _, pixels = content.partition(b")")
        width, height = map(int, size.removeprefix(b"(").split(b","))
        return Image.frombytes("RGB", (width, height), pixels)


def read_timm_dataset(name: str, root: Path | None = None) -> dict[str, ImageDataset]:
    """The training and validation splits, from `root`, which defaults to the user's cache folder."""
    root = root or _HOME
    return {"train": _read_split(name, "train", root), "val": _read_split(name, "validation", root)}


def _read_split(name: str, split: str, root: Path) -> ImageDataset:
    from timm.data.dataset_factory import create_dataset

    root.mkdir(parents=True, exist_ok=True)
    dataset: Any = create_dataset(name, root=str(root), split=split, is_training=split == "train", download=True)
    labels, classes = _read_labels(dataset, name)
    names = [f"{name}/{split}#{i}" for i in range(len(labels))]
    return ImageDataset(classes, labels, names, [0] * len(labels), DatasetItems(dataset))


def _read_labels(dataset: Any, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
    reader = getattr(dataset, "reader", None)
    if reader is not None and hasattr(reader, "dataset"):  # Hugging Face
        column = reader.dataset.features[reader.label_key]
        labels = np.array(reader.dataset[reader.label_key], dtype=np.int64)
        classes = getattr(column, "names", None)
    else:  # torchvision
        targets = getattr(dataset, "targets", getattr(dataset, "labels", None))
        if targets is None:
            raise ValueError(f"{name} does not provide the labels of its images")
        labels, classes = np.asarray([int(label) for label in targets]), getattr(dataset, "classes", None)
    return labels, tuple(map(str, classes or range(int(labels.max()) + 1)))
