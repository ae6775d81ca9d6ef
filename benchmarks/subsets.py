"""A part of a dataset as a pack of its own, so that runs train, validate and test on fewer images."""

from pathlib import Path

import numpy as np

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.sources import DataSplit


def write_subset(folder: Path, data: str, val_data: str | None, train: int | None, test: int | None) -> Path:
    """Write a pack with random training and validation images, the same ones for the same numbers; None for all.

    All images must have the same size.
    """
    path = folder / f"{Path(data).stem}-{train or 'all'}-{test or 'all'}.npz"
    if not path.exists():
        split = DataSplit(data, val_data, 0.2, 0).read()
        x_train, y_train = _pixels(split.train, train)
        x_test, y_test = _pixels(split.val, test)
        temporary = path.with_suffix(".partial.npz")
        np.savez(temporary, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
        temporary.rename(path)
    return path


def _pixels(dataset: ImageDataset, count: int | None) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.sort(np.random.default_rng(0).permutation(len(dataset))[:count])
    return np.stack([np.asarray(dataset.open(int(i))) for i in chosen]), dataset.labels[chosen]
