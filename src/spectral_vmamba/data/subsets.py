"""A part of a dataset as a pack of its own, so that runs train and validate on fewer images."""

from hashlib import sha256
from pathlib import Path

import numpy as np

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.utils.atomic_files import atomic_write


def write_subset(folder: Path, data: str, val_data: str | None, train: int | None, test: int | None) -> Path:
    """Write a pack with random training and validation images, the same ones for the same numbers; None for all.

    All images must have the same size. The name of the pack contains the fingerprint of its source: an existing pack
    of the same images is kept.
    """
    split = DataSplit(data, val_data, 0.2, 0).read()
    source = sha256((split.train.fingerprint() + split.val.fingerprint()).encode()).hexdigest()
    path = folder / f"{Path(data).stem}-{train or 'all'}-{test or 'all'}-{source[:8]}.npz"
    if not path.exists():
        x_train, y_train = _pixels(split.train, train)
        x_test, y_test = _pixels(split.val, test)
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez(file, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    return path


def _pixels(dataset: ImageDataset, count: int | None) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.sort(np.random.default_rng(0).permutation(len(dataset))[:count])
    images = [np.asarray(dataset.open(int(i))) for i in chosen]
    shapes = {image.shape for image in images}
    if len(shapes) > 1:
        raise ValueError(f"expected images of one size to choose some of them, got {sorted(shapes)[:3]}")
    return np.stack(images), dataset.labels[chosen]
