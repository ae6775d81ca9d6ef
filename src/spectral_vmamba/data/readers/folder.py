"""Images in folders, one folder per class, and in CSV tables of paths and labels."""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from spectral_vmamba.data.dataset import UNLABELED, ImageDataset
from spectral_vmamba.data.decode import decode_image, read_file

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".jp2", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_TRAIN = ("train", "training")
_VAL = ("val", "valid", "validation", "test")
_TEST = "test"  # the test part if another part is the validation part


@dataclass(frozen=True)
class FileStorage:
    paths: Sequence[str]

    def content(self, i: int) -> bytes:
        return read_file(self.paths[i])

    def decode(self, i: int, content: bytes) -> Image.Image:
        return decode_image(content, self.paths[i])


def list_images(folder: Path) -> list[Path]:
    """All images at any depth, by suffix, sorted; hidden files and folders are ignored."""
    paths = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    return sorted(path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts))


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
    paths = list_images(folder)
    if not paths:
        raise ValueError(f"no images found in {folder}")
    return read_files((str(path.relative_to(folder)) for path in paths), folder, str(folder))


def read_partly_labeled_folder(folder: Path) -> ImageDataset:
    """All images at any depth; those in class folders with their label."""
    everything = read_unlabeled_folder(folder)
    try:
        splits = read_folder(folder)
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
    {"train": …, "val": …, "test": …}. `test/` without `val/` contains the validation images."""
    subfolders = {entry.name.lower(): entry for entry in sorted(folder.iterdir()) if entry.is_dir()}
    train = next((subfolders[name] for name in _TRAIN if name in subfolders), None)
    val = next((subfolders[name] for name in _VAL if name in subfolders), None)
    if train is None or val is None:
        return {"all": _read_class_folders(folder)}
    train_set, val_set = _read_class_folders(train), _read_class_folders(val)
    splits = {"train": train_set, "val": val_set.with_classes(train_set.classes, f"{val} does not match {train}")}
    test = subfolders.get(_TEST)
    if test is not None and test != val:
        splits["test"] = _read_class_folders(test).with_classes(train_set.classes, f"{test} does not match {train}")
    return splits


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
    indices = {str(name): np.flatnonzero(splits == name) for name in np.unique(splits)}
    train = next((indices[name] for name in _TRAIN if name in indices), None)
    val = next((indices[name] for name in _VAL if name in indices), None)
    if train is None or val is None:
        raise ValueError(f"expected the splits train and val (or test) in {source}, got {', '.join(indices)}")
    parts = {"train": dataset.subset(train), "val": dataset.subset(val)}
    if val is not indices.get(_TEST) and _TEST in indices:
        parts["test"] = dataset.subset(indices[_TEST])
    return parts


def file_stamp(path: Path) -> str:
    """Size and modification time: contents can change without changing the size."""
    try:
        status = path.stat()
    except OSError:
        return "missing"
    return f"{status.st_size} {status.st_mtime_ns}"


def _read_class_folders(folder: Path) -> ImageDataset:
    classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    paths_by_class = {name: list_images(folder / name) for name in classes}
    classes = [name for name in classes if paths_by_class[name]]
    if not classes:
        count = len(list_images(folder))
        problem = f"{count} images in {folder}, but not in class folders" if count else f"no images in {folder}"
        raise ValueError(
            f"{problem}; expected one folder per class with images in it "
            f"({', '.join(SUFFIXES)}), as in {folder}/cat/1.jpg"
        )
    paths = [path for name in classes for path in paths_by_class[name]]
    return ImageDataset(
        tuple(classes),
        labels=np.repeat(np.arange(len(classes)), [len(paths_by_class[name]) for name in classes]),
        names=[str(path.relative_to(folder)) for path in paths],
        stamps=[path.stat().st_size for path in paths],
        storage=FileStorage([str(path) for path in paths]),
        root=str(folder.absolute()),
    )
