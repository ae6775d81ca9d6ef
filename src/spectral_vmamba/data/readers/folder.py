"""Images in folders, one folder per class, and in CSV tables of paths and labels."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int
from PIL import Image

from spectral_vmamba.data.dataset import UNLABELED, ImageDataset
from spectral_vmamba.data.decode import decode_image, read_file
from spectral_vmamba.data.readers.folder_listing import Skipped, list_folder, readable_suffixes
from spectral_vmamba.utils.wording import plural

_TRAIN = ("train", "training")
_VAL = ("val", "valid", "validation", "test")
SPLIT_NAMES = (*_TRAIN, *_VAL)
_TEST = "test"  # the test part if another part is the validation part


@dataclass(frozen=True)
class FileStorage:
    paths: Sequence[str]

    def content(self, i: int) -> bytes:
        return read_file(self.paths[i])

    def decode(self, i: int, content: bytes) -> Image.Image:
        return decode_image(content, self.paths[i])


def read_files(names: Iterable[str], root: Path, source: str) -> ImageDataset:
    """Unlabeled image files by their names relative to `root`; the stamps include modification times."""
    names = list(names)
    if not names:
        raise ValueError(f"no images in {source}; expected one path per line")
    paths = [root / name for name in names]
    labels = np.full(len(names), UNLABELED)
    storage = FileStorage([str(path.absolute()) for path in paths])
    return ImageDataset((), labels, names, [file_stamp(path) for path in paths], storage, str(root.absolute()))


def read_unlabeled_folder(folder: Path) -> ImageDataset:
    """All images at any depth, without labels."""
    paths, skipped = list_folder(folder)
    if not paths:
        raise ValueError(_explain_empty(folder, skipped))
    skipped.warn(folder)
    return read_files((str(path.relative_to(folder)) for path in paths), folder, str(folder))


def read_partly_labeled_folder(folder: Path) -> ImageDataset:
    """All images at any depth; those in class folders with their label."""
    everything = read_unlabeled_folder(folder)
    try:
        splits, _ = _read_splits(folder)
    except ValueError:  # no class folders, or train and val disagree about the classes
        return everything
    classes = next(iter(splits.values())).classes
    labels = {
        path: label
        for split in splits.values()
        if isinstance(split.storage, FileStorage)
        for path, label in zip(split.storage.paths, split.labels.tolist(), strict=True)
    }
    found = np.array([labels.get(str(folder / name), UNLABELED) for name in everything.names])
    return ImageDataset(classes, found, everything.names, everything.stamps, everything.storage, everything.root)


def read_folder(folder: Path) -> dict[str, ImageDataset]:
    """Class folders, as {"all": …}; or `train/`, `val/` and optionally `test/` with class folders in each, as
    {"train": …, "val": …, "test": …}. `test/` without `val/` contains the validation images.

    Where only one of `train/` and `val/` is there, its class folders are {"all": …}. Warns about skipped files.
    """
    splits, skipped = _read_splits(folder)
    skipped.warn(folder)
    return splits


def _read_splits(folder: Path) -> tuple[dict[str, ImageDataset], Skipped]:
    subfolders = {entry.name.lower(): entry for entry in sorted(folder.iterdir()) if _is_class_folder(entry)}
    train = next((subfolders[name] for name in _TRAIN if name in subfolders), None)
    val = next((subfolders[name] for name in _VAL if name in subfolders), None)
    if train is None or val is None:
        only = train or val
        is_split = only is not None and len(subfolders) == 1 and any(map(_is_class_folder, only.iterdir()))
        dataset, skipped = _read_class_folders(only if only and is_split else folder)
        return {"all": dataset}, skipped
    train_set, skipped = _read_class_folders(train)
    splits, test = {"train": train_set}, subfolders.get(_TEST)
    others = {"val": val} if test in (None, val) else {"val": val, "test": test}
    for name, part in others.items():
        part_set, skipped_part = _read_class_folders(part)
        skipped.merge(skipped_part)
        splits[name] = part_set.with_classes(train_set.classes, f"{part} does not match {train}")
    return splits, skipped


def read_csv(table: Path) -> dict[str, ImageDataset]:
    """A CSV file with the columns `path` (relative to the file), `label` and optionally `split` (train, val, test)."""
    with table.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.DictReader(stream)
        columns = [name.strip().lower() for name in reader.fieldnames or ()]
        if not {"path", "label"} <= set(columns):
            raise ValueError(f"expected a header line with the columns path,label in {table}, got {columns}")
        reader.fieldnames = columns
        rows = [row for row in reader if row["path"]]
    if not rows:
        raise ValueError(f"{table} lists no images")
    unlabeled = next((row["path"] for row in rows if not row["label"]), None)
    if unlabeled is not None:
        raise ValueError(f"{table}: no label for {unlabeled}")
    classes = sorted({row["label"] for row in rows})
    number = {name: i for i, name in enumerate(classes)}
    paths = [table.parent / row["path"] for row in rows]
    everything = ImageDataset(
        tuple(classes),
        np.array([number[row["label"]] for row in rows], dtype=np.int64),
        names=[row["path"] for row in rows],
        stamps=[path.stat().st_size if path.is_file() else 0 for path in paths],
        storage=FileStorage([str(path) for path in paths]),
        root=str(table.parent.absolute()),
    )
    if "split" not in columns:
        return {"all": everything}
    return divide_by_split(everything, np.array([row["split"] for row in rows]), str(table))


def divide_by_split(dataset: ImageDataset, splits: np.ndarray, source: str) -> dict[str, ImageDataset]:
    """The parts that a column of split names selects: train, val, and test if there are all three."""
    return {name: dataset.subset(index) for name, index in split_indices(splits, source).items()}


def split_indices(splits: np.ndarray, source: str) -> dict[str, Int[np.ndarray, "k"]]:
    """The rows of each part that a column of split names selects: train, val, and test if there are all three."""
    indices = {str(name): np.flatnonzero(splits == name) for name in np.unique(splits)}
    train = next((indices[name] for name in _TRAIN if name in indices), None)
    val = next((indices[name] for name in _VAL if name in indices), None)
    if train is None or val is None:
        raise ValueError(f"expected the splits train and val (or test) in {source}, got {', '.join(indices)}")
    parts = {"train": train, "val": val}
    if val is not indices.get(_TEST) and _TEST in indices:
        parts["test"] = indices[_TEST]
    return parts


def file_stamp(path: Path) -> str:
    """Size and modification time: contents can change without changing the size."""
    try:
        status = path.stat()
    except OSError:
        return "missing"
    return f"{status.st_size} {status.st_mtime_ns}"


def _is_class_folder(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".")


def _read_class_folders(folder: Path) -> tuple[ImageDataset, Skipped]:
    entries = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    skipped, paths_by_class = Skipped(), {}
    for name in (name for name in entries if (folder / name).is_dir()):
        paths_by_class[name], skipped_there = list_folder(folder / name)
        skipped.merge(skipped_there)
    classes = [name for name, paths in paths_by_class.items() if paths]
    loose = [name for name in entries if Path(name).suffix.lower() in readable_suffixes()]
    skipped.loose_images = sum((folder / name).is_file() for name in loose)
    skipped.empty_classes = [name for name, paths in paths_by_class.items() if not paths]
    if not classes:
        count = skipped.loose_images
        problem = f"{plural(count, 'image')} in {folder}, but not in class folders"
        raise ValueError(
            f"{problem if count else _explain_empty(folder, skipped)}; expected one folder per class with images in it "
            f"({', '.join(readable_suffixes())}), as in {folder}/cat/1.jpg"
        )
    paths = [path for name in classes for path in paths_by_class[name]]
    return ImageDataset(
        tuple(classes),
        labels=np.repeat(np.arange(len(classes)), [len(paths_by_class[name]) for name in classes]),
        names=[str(path.relative_to(folder)) for path in paths],
        stamps=[path.stat().st_size for path in paths],
        storage=FileStorage([str(path) for path in paths]),
        root=str(folder.absolute()),
    ), skipped


def _explain_empty(folder: Path, skipped: Skipped) -> str:
    details = skipped.describe()
    return f"no images in {folder}" + (f" ({details})" if details else "")
