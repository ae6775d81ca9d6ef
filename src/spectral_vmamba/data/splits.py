"""Dividing pictures into those to train on and those to validate on, the same way every time."""

import numpy as np
from jaxtyping import Int

from spectral_vmamba.data.pictures import Pictures
from spectral_vmamba.data.randomness import SPLIT


def split_fraction(pictures: Pictures, val_fraction: float, seed: int) -> tuple[Pictures, Pictures]:
    """The same share of every class for validation, at least one picture of each."""
    if not 0 < val_fraction < 1:
        raise ValueError(f"expected a fraction for validation between 0 and 1, got {val_fraction}")
    counts = {label: max(round(val_fraction * count), 1) for label, count in _counts(pictures).items()}
    train, val = _divided(pictures, {label: (None, count) for label, count in counts.items()}, seed)
    if len(np.unique(pictures.labels[train])) < len(counts):
        alone = [pictures.classes[label] for label, count in _counts(pictures).items() if count < 2]
        raise ValueError(f"expected at least 2 pictures of every class to divide, got 1 of {', '.join(alone)}")
    return pictures.subset(train), pictures.subset(val)


def split_counts(
    pictures: Pictures, train_per_class: int | None, val_per_class: int, seed: int
) -> tuple[Pictures, Pictures]:
    """So many pictures of every class for each part (None: all others to train on); the mini-ImageNet protocol is 500
    and 100 of each of 100."""
    least = 1 if train_per_class is None else train_per_class
    if least < 1 or val_per_class < 1:
        raise ValueError(f"expected at least 1 picture a class in each part, got {train_per_class} and {val_per_class}")
    wanted = least + val_per_class
    few = {pictures.classes[label]: count for label, count in _counts(pictures).items() if count < wanted}
    if few:
        name, count = next(iter(few.items()))
        raise ValueError(f"{len(few)} classes have fewer than {wanted} pictures: {name} has {count}")
    train, val = _divided(pictures, {label: (train_per_class, val_per_class) for label in _counts(pictures)}, seed)
    return pictures.subset(train), pictures.subset(val)


def _counts(pictures: Pictures) -> dict[int, int]:
    labels, counts = np.unique(pictures.labels, return_counts=True)
    return dict(zip(labels.tolist(), counts.tolist(), strict=True))


def _divided(
    pictures: Pictures, counts: dict[int, tuple[int | None, int]], seed: int
) -> tuple[Int[np.ndarray, "t"], Int[np.ndarray, "v"]]:
    """By class: so many for validation, then so many (None: the rest) for training; both in their old order."""
    train, val = [], []
    for label, (for_training, for_validation) in counts.items():
        members = np.flatnonzero(pictures.labels == label)
        shuffled = np.random.default_rng([SPLIT, seed, label]).permutation(members)
        val.append(shuffled[:for_validation])
        end = None if for_training is None else for_validation + for_training
        train.append(shuffled[for_validation:end])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(val))
