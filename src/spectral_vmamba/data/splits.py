"""Dividing images into those to train on and those to validate on, the same way every time."""

import numpy as np
from jaxtyping import Int

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.seeding import SPLIT


def split_fraction(images: ImageDataset, val_fraction: float, seed: int) -> tuple[ImageDataset, ImageDataset]:
    """The same share of every class for validation, at least one image of each."""
    if not 0 < val_fraction < 1:
        raise ValueError(f"expected a fraction for validation between 0 and 1, got {val_fraction}")
    counts = {label: max(round(val_fraction * count), 1) for label, count in _counts(images).items()}
    train, val = _divided(images, {label: (None, count) for label, count in counts.items()}, seed)
    if len(np.unique(images.labels[train])) < len(counts):
        alone = [images.classes[label] for label, count in _counts(images).items() if count < 2]
        raise ValueError(f"expected at least 2 images of every class to divide, got 1 of {', '.join(alone)}")
    return images.subset(train), images.subset(val)


def split_counts(
    images: ImageDataset, train_per_class: int | None, val_per_class: int, seed: int
) -> tuple[ImageDataset, ImageDataset]:
    """So many images of every class for each part (None: all others to train on); the mini-ImageNet protocol is 500
    and 100 of each of 100."""
    least = 1 if train_per_class is None else train_per_class
    if least < 1 or val_per_class < 1:
        raise ValueError(f"expected at least 1 image a class in each part, got {train_per_class} and {val_per_class}")
    wanted = least + val_per_class
    few = {images.classes[label]: count for label, count in _counts(images).items() if count < wanted}
    if few:
        name, count = next(iter(few.items()))
        raise ValueError(f"{len(few)} classes have fewer than {wanted} images: {name} has {count}")
    train, val = _divided(images, {label: (train_per_class, val_per_class) for label in _counts(images)}, seed)
    return images.subset(train), images.subset(val)


def _counts(images: ImageDataset) -> dict[int, int]:
    labels, counts = np.unique(images.labels, return_counts=True)
    return dict(zip(labels.tolist(), counts.tolist(), strict=True))


def _divided(
    images: ImageDataset, counts: dict[int, tuple[int | None, int]], seed: int
) -> tuple[Int[np.ndarray, "t"], Int[np.ndarray, "v"]]:
    """By class: so many for validation, then so many (None: the rest) for training; both in their old order."""
    train, val = [], []
    for label, (for_training, for_validation) in counts.items():
        members = np.flatnonzero(images.labels == label)
        shuffled = np.random.default_rng([SPLIT, seed, label]).permutation(members)
        val.append(shuffled[:for_validation])
        end = None if for_training is None else for_validation + for_training
        train.append(shuffled[for_validation:end])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(val))
