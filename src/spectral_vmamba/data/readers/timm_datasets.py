"""Data sets under timm's names: `torch/…` (torchvision) and `hfds/…` (Hugging Face), where they can be reached."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset

PREFIXES = ("torch/", "hfds/")
_HOME = Path.home() / ".cache" / "spectral_vmamba" / "data"


@dataclass(frozen=True)
class Items:
    dataset: Any

    def __call__(self, i: int) -> Image.Image:
        try:
            return self.dataset[i][0].convert("RGB")
        except (OSError, SyntaxError) as error:
            raise ValueError(f"item {i} cannot be read as an image: {error}") from error

    def content(self, i: int) -> bytes:
        image = self(i)
        return f"{image.size}".encode() + image.tobytes()


def read_named(name: str, root: Path | None = None) -> dict[str, ImageDataset]:
    """Both splits, from `root` or the user's cache; downloaded first if need be."""
    return {"train": _split(name, "train", root or _HOME), "val": _split(name, "validation", root or _HOME)}


def _split(name: str, split: str, root: Path) -> ImageDataset:
    from timm.data.dataset_factory import create_dataset

    root.mkdir(parents=True, exist_ok=True)
    dataset: Any = create_dataset(name, root=str(root), split=split, is_training=split == "train", download=True)
    labels, classes = _labels(dataset, name)
    numbers = range(len(labels))
    return ImageDataset(classes, labels, [f"{name}/{split}#{i}" for i in numbers], [0 for _ in numbers], Items(dataset))


def _labels(dataset: Any, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
    reader = getattr(dataset, "reader", None)
    if reader is not None and hasattr(reader, "dataset"):  # Hugging Face
        column = reader.dataset.features[reader.label_key]
        labels = np.array(reader.dataset[reader.label_key], dtype=np.int64)
        classes = getattr(column, "names", None)
    else:  # torchvision
        found = getattr(dataset, "targets", getattr(dataset, "labels", None))
        if found is None:
            raise ValueError(f"{name} does not say the labels of its images")
        labels, classes = np.asarray([int(label) for label in found]), getattr(dataset, "classes", None)
    return labels, tuple(map(str, classes or range(int(labels.max()) + 1)))
