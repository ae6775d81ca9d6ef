"""A part of a dataset as a source of its own, so that runs train and test on fewer images."""

import csv
import io
from hashlib import sha256
from pathlib import Path

import numpy as np
from jaxtyping import Int

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import decode_image
from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.utils.atomic_files import atomic_write


def write_subset(folder: Path, data: str, val_data: str | None, train: int | None, test: int | None) -> Path:
    """Write a source with random training and test images, the same ones for the same numbers; None for all.

    The test images are those of the data, or its validation images if it has no test images. Every class has a training
    image. Image files are listed in a table, other images are copied into a pack. The name contains the fingerprint of
    the source: an existing subset of the same images is kept.
    """
    split = DataSplit(data, val_data, 0.2, 0).read()
    parts = {"train": (split.train, train), "test": (split.test or split.val, test)}
    source = sha256("".join(dataset.fingerprint() for dataset, _ in parts.values()).encode()).hexdigest()
    in_files = all(dataset.root is not None for dataset, _ in parts.values())
    path = folder / f"{Path(data).stem}-{train or 'all'}-{test or 'all'}-{source[:8]}{'.csv' if in_files else '.npz'}"
    if not path.exists():
        subsets = {name: dataset.subset(_choose(name, dataset, count)) for name, (dataset, count) in parts.items()}
        with atomic_write(path) as temporary:
            (_write_table if in_files else _write_pack)(temporary, subsets)
    return path


def _choose(name: str, dataset: ImageDataset, count: int | None) -> Int[np.ndarray, "k"]:
    try:
        return choose_images(dataset, count)
    except ValueError as error:
        raise ValueError(f"{name} images: {error}") from error


def choose_images(dataset: ImageDataset, count: int | None) -> Int[np.ndarray, "k"]:
    """Random images, at least one of each class. ValueError if there are not as many, or fewer than classes."""
    if count is not None and count > len(dataset):
        raise ValueError(f"expected at most {len(dataset):,}, which is all there are, got {count:,}")
    shuffled = np.random.default_rng(0).permutation(len(dataset))
    _, first = np.unique(dataset.labels[shuffled], return_index=True)
    if count is not None and count < len(first):
        raise ValueError(f"expected at least one of each of the {len(first)} classes, got {count}")
    others = np.setdiff1d(np.arange(len(dataset)), first)
    return np.sort(shuffled[np.concatenate([first, others])[:count]])


def _write_table(path: Path, subsets: dict[str, ImageDataset]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(("path", "label", "split"))
        for split, dataset in subsets.items():
            root = Path(dataset.root or "")
            table.writerows((root / name, dataset.label_name(i), split) for i, name in enumerate(dataset.names))


def _write_pack(path: Path, subsets: dict[str, ImageDataset]) -> None:
    files = [_image_file(dataset, i) for dataset in subsets.values() for i in range(len(dataset))]
    with path.open("wb") as stream:
        np.savez(
            stream,
            data=np.frombuffer(b"".join(files), np.uint8),
            offset=np.cumsum([0, *map(len, files)]),
            label=np.concatenate([dataset.labels for dataset in subsets.values()]),
            classes=np.array(subsets["train"].classes),
            split=np.repeat(list(subsets), [len(dataset) for dataset in subsets.values()]),
        )


def _image_file(dataset: ImageDataset, i: int) -> bytes:
    """The file of an image; of pixels that are in no file, a PNG."""
    content = dataset.storage.content(i)
    try:
        decode_image(content, dataset.names[i])
        return content
    except ValueError:
        buffer = io.BytesIO()
        dataset.open(i).save(buffer, "png")
        return buffer.getvalue()
