"""Divide a dataset into training, validation and test images, reproducibly."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.seeding import SPLIT
from spectral_vmamba.utils.wording import plural


class SplitImages(NamedTuple):
    """Validation images choose the best epoch; test images, if there are any, choose nothing."""

    train: ImageDataset
    val: ImageDataset
    test: ImageDataset | None = None


def split_fraction(dataset: ImageDataset, fraction: float, seed: int) -> tuple[ImageDataset, ImageDataset]:
    """Hold out the same fraction of every class, at least one image of each; returns the rest and the held-out part."""
    rest, (held_out,) = _hold_out(dataset, (fraction,), seed)
    return rest, held_out


def split_fractions(dataset: ImageDataset, val_fraction: float, test_fraction: float, seed: int) -> SplitImages:
    """Hold out validation and test images of every class. The validation images are those of `split_fraction`."""
    train, (val, test) = _hold_out(dataset, (val_fraction, test_fraction), seed)
    return SplitImages(train, val, test)


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
        raise ValueError(
            f"fewer than {needed} images in {plural(len(too_small), 'class', 'classes')}: {name} has {size}"
        )
    train, val = _draw(dataset, {label: (train_per_class, val_per_class) for label in class_sizes}, seed)
    return dataset.subset(train), dataset.subset(val)


def _count_by_class(dataset: ImageDataset) -> dict[int, int]:
    labels, counts = np.unique(dataset.labels, return_counts=True)
    return dict(zip(labels.tolist(), counts.tolist(), strict=True))


def _hold_out(
    dataset: ImageDataset, fractions: tuple[float, ...], seed: int
) -> tuple[ImageDataset, list[ImageDataset]]:
    if not all(0 < fraction < 1 for fraction in fractions) or sum(fractions) >= 1:
        raise ValueError(f"expected fractions between 0 and 1 with a sum below 1, got {', '.join(map(str, fractions))}")
    class_sizes = _count_by_class(dataset)
    counts = {
        label: (None, *(max(round(fraction * size), 1) for fraction in fractions))
        for label, size in class_sizes.items()
    }
    train, *held_out = _draw(dataset, counts, seed)
    if len(np.unique(dataset.labels[train])) < len(counts):
        remaining = set(dataset.labels[train].tolist())
        small = [(dataset.classes[label], size) for label, size in class_sizes.items() if label not in remaining]
        sizes = ", ".join(f"{size} of {name}" for name, size in small)
        raise ValueError(f"expected at least {len(fractions) + 1} images of every class to split, got {sizes}")
    return dataset.subset(train), [dataset.subset(part) for part in held_out]


def _draw(
    dataset: ImageDataset, counts: Mapping[int, tuple[int | None, *tuple[int, ...]]], seed: int
) -> list[Int[np.ndarray, "k"]]:
    """Sorted indices of each part; `counts` are the images per label for training (None: all that remain), then for the
    held-out parts."""
    parts = []
    for label, (train_count, *held_out) in counts.items():
        members = np.flatnonzero(dataset.labels == label)
        shuffled = np.random.default_rng([SPLIT, seed, label]).permutation(members)
        *drawn, rest = np.split(shuffled, np.cumsum(held_out))
        parts.append([rest[:train_count], *drawn])
    return [np.sort(np.concatenate(part)) for part in zip(*parts, strict=True)]
