"""Divide a dataset into training and validation images, reproducibly."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Int

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.seeding import SPLIT
from spectral_vmamba.utils.wording import plural


def split_fraction(dataset: ImageDataset, val_fraction: float, seed: int) -> tuple[ImageDataset, ImageDataset]:
    """Hold out the same fraction of every class for validation, at least one image of each."""
    if not 0 < val_fraction < 1:
        raise ValueError(f"expected a validation fraction between 0 and 1, got {val_fraction}")
    class_sizes = _count_by_class(dataset)
    counts = {label: (None, max(round(val_fraction * size), 1)) for label, size in class_sizes.items()}
    train, val = _draw(dataset, counts, seed)
    if len(np.unique(dataset.labels[train])) < len(counts):
        single = [dataset.classes[label] for label, size in class_sizes.items() if size < 2]
        raise ValueError(f"expected at least 2 images of every class to split, got 1 of {', '.join(single)}")
    return dataset.subset(train), dataset.subset(val)


def split_counts(
    dataset: ImageDataset, train_per_class: int | None, val_per_class: int, seed: int
) -> tuple[ImageDataset, ImageDataset]:
    """Draw a fixed number of images per class for each part (None: all remaining ones for training).

    The mini-ImageNet protocol is 500 and 100 images for each of 100 classes.
    """
    at_least = 1 if train_per_class is None else train_per_class
    if at_least < 1 or val_per_class < 1:
        counts = f"{train_per_class} and {val_per_class}"
        raise ValueError(f"expected at least 1 image per class in each part, got {counts}")
    needed = at_least + val_per_class
    class_sizes = _count_by_class(dataset)
    too_small = {dataset.classes[label]: size for label, size in class_sizes.items() if size < needed}
    if too_small:
        name, size = next(iter(too_small.items()))
        count = plural(len(too_small), "class", "classes")
        raise ValueError(f"{count} with fewer than {needed} images: {name} has {size}")
    train, val = _draw(dataset, {label: (train_per_class, val_per_class) for label in class_sizes}, seed)
    return dataset.subset(train), dataset.subset(val)


def _count_by_class(dataset: ImageDataset) -> dict[int, int]:
    labels, counts = np.unique(dataset.labels, return_counts=True)
    return dict(zip(labels.tolist(), counts.tolist(), strict=True))


def _draw(
    dataset: ImageDataset, counts: Mapping[int, tuple[int | None, int]], seed: int
) -> tuple[Int[np.ndarray, "t"], Int[np.ndarray, "v"]]:
    """Sorted indices of both parts; `counts` are the training (None: all) and validation images per label."""
    train, val = [], []
    for label, (train_count, val_count) in counts.items():
        members = np.flatnonzero(dataset.labels == label)
        shuffled = np.random.default_rng([SPLIT, seed, label]).permutation(members)
        val.append(shuffled[:val_count])
        end = None if train_count is None else val_count + train_count
        train.append(shuffled[val_count:end])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(val))
