"""A part of a dataset as a pack of its own, so that runs train, validate and test on fewer images."""

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.segmentation.masked_dataset import MaskedDataset


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


def write_pairs(path: Path, dataset: MaskedDataset) -> Path:
    """Write images with masks as a pack of PNG files, in the layout of `read_masked_source`."""
    pairs = [dataset.open(i) for i in range(len(dataset))]
    arrays: dict[str, np.ndarray] = {"classes": np.array(dataset.classes), "ignore": np.array([dataset.ignore_index])}
    for name, images in (("", [image for image, _ in pairs]), ("mask_", [Image.fromarray(mask) for _, mask in pairs])):
        files = [_png(image) for image in images]
        arrays[f"{name}data"] = np.frombuffer(b"".join(files), np.uint8)
        arrays[f"{name}offset"] = np.cumsum([0, *map(len, files)])
    np.savez(path, **arrays)  # pyright: ignore[reportArgumentType]
    return path


def _png(image: Image.Image) -> bytes:
    stream = BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()
