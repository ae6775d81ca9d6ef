"""From the name of a source (folder, table, pack, dataset) to images for training, validation, test or embedding."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from spectral_vmamba.data.dataset import ImageDataset, concatenate
from spectral_vmamba.data.find import find_images
from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.data.readers.folder import (
    file_stamp,
    read_csv,
    read_files,
    read_folder,
    read_partly_labeled_folder,
)
from spectral_vmamba.data.readers.npz import read_npz
from spectral_vmamba.data.readers.timm_datasets import PREFIXES, read_timm_dataset
from spectral_vmamba.data.readers.webdataset import read_shards
from spectral_vmamba.data.splits import SplitImages, split_fraction, split_fractions

Part = Literal["val", "test"]


@dataclass(frozen=True)
class DataSplit:
    """How a run divides its data: what is needed to find the same validation and test images again."""

    data: str
    val_data: str | None
    val_fraction: float
    seed: int
    test_fraction: float = 0.0

    def __post_init__(self):
        fractions = (self.val_fraction, self.test_fraction)
        if not all(0 <= fraction < 1 for fraction in fractions):
            raise ValueError(f"expected fractions of at least 0 and below 1, got {fractions[0]} and {fractions[1]}")

    def read(self) -> SplitImages:
        """The parts of `data`. Validation images are those of `val_data` if it is given; parts that the data does not
        have are seeded fractions of every class. There are test images only in the data, or with a `test_fraction`."""
        splits = read_source(self.data)
        test = splits.get("test")
        if test is not None and self.test_fraction:
            raise ValueError(
                f"{self.data} has test images of its own; expected test_fraction 0, got {self.test_fraction}"
            )
        if "all" in splits and self.val_data is None:
            if self.test_fraction:
                return split_fractions(splits["all"], self.val_fraction, self.test_fraction, self.seed)
            return SplitImages(*split_fraction(splits["all"], self.val_fraction, self.seed))
        train = splits.get("train", splits.get("all"))
        assert train is not None
        if self.val_data is not None:
            context = f"{self.val_data} does not match {self.data}"
            val = read_validation_part(self.val_data).with_classes(train.classes, context)
        else:
            val = splits["val"]
        if self.test_fraction:
            train, test = split_fraction(train, self.test_fraction, self.seed)
        return SplitImages(train, val, test)


def read_source(source: str) -> dict[str, ImageDataset]:
    """{"train": …, "val": …} where the source has the two, with "test": … where it has all three, else {"all": …}."""
    if source == "digits":
        return {"all": read_digits()}
    if source.startswith("wds/"):
        return {"all": read_shards(source.removeprefix("wds/"))}
    if source.startswith(PREFIXES):
        return read_timm_dataset(source)
    path = Path(source)
    if path.is_dir():
        return read_folder(path)
    if not path.exists():
        raise FileNotFoundError(
            f"no data at {source}; expected a folder of images, a .csv, a .npz, 'digits', or a name that starts with "
            f"{', '.join((*PREFIXES, 'wds/'))}"
        )
    if path.suffix.lower() == ".csv":
        return read_csv(path)
    if path.suffix.lower() == ".npz":
        return read_npz(path)
    raise ValueError(f"expected a folder, a .csv or a .npz, got {source}")


def read_validation_part(source: str) -> ImageDataset:
    """The validation part of a source, or all of it where it has no parts."""
    splits = read_source(source)
    return splits["val"] if "val" in splits else splits["all"]


def read_evaluation_part(source: str, part: Part | None) -> ImageDataset:
    """The validation or test part of a source; for None the test part where it has one, else as
    `read_validation_part`."""
    splits = read_source(source)
    if part is not None and part not in splits:
        raise ValueError(f"{source} has no part {part}; it has {', '.join(splits)}")
    return next(splits[name] for name in ((part,) if part else ("test", "val", "all")) if name in splits)


def read_images(source: str) -> ImageDataset:
    """All images of a source, labeled or not: a folder (at any depth), a .txt with one path per line (relative to it),
    or any source of `read_source`. The stamps of files include their modification times."""
    path = Path(source)
    if path.is_dir():
        return read_partly_labeled_folder(path)
    if path.is_file() and path.suffix.lower() == ".txt":
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        return read_files((line.strip() for line in lines if line.strip()), path.parent, source)
    return _join_splits(read_source(source), path)


def read_named_images(names: Iterable[str]) -> ImageDataset:
    """Files, folders and patterns from a command line; names that match nothing become unreadable images."""
    return read_files((image.name for image in find_images(names)), Path(), "the given names")


def absolute_path(source: str) -> str:
    """Files and folders by their absolute path; names of datasets unchanged."""
    return os.path.abspath(source) if os.path.exists(source) else source


def _join_splits(splits: dict[str, ImageDataset], path: Path) -> ImageDataset:
    """All splits, one after the other; where they repeat names, prefixed by the name of the split."""
    datasets = list(splits.values())
    names = [name for dataset in datasets for name in dataset.names]
    root = datasets[0].root
    if root is not None:  # files: a table
        stamps: list[int | str] = [file_stamp(Path(root) / name) for name in names]
    else:
        if len(set(names)) < len(names):
            names = [f"{split}/{name}" for split, dataset in splits.items() for name in dataset.names]
        container = file_stamp(path) if path.is_file() else ""
        stamps = [f"{stamp} {container}" for dataset in datasets for stamp in dataset.stamps]
    return concatenate(datasets, names, stamps, root)
