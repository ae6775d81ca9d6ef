"""ImageDataset in folders, one folder a class, and in tables of paths and labels."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import decode_image

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".jp2", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_TRAIN = ("train", "training")
_VAL = ("val", "valid", "validation", "test")


@dataclass(frozen=True)
class Files:
    paths: Sequence[str]

    def __call__(self, i: int) -> Image.Image:
        try:
            return decode_image(self.paths[i])
        except FileNotFoundError as error:
            raise ValueError(str(error)) from error

    def content(self, i: int) -> bytes:
        try:
            return Path(self.paths[i]).read_bytes()
        except OSError as error:
            raise ValueError(f"{self.paths[i]} cannot be read: {error}") from error


def images_below(folder: Path) -> list[Path]:
    """Every image at any depth, by its suffix, in the order of names; hidden files and folders are left out."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def unlabeled(folder: Path) -> ImageDataset:
    """All images below a folder, whatever they show."""
    paths = images_below(folder)
    if not paths:
        raise ValueError(f"no images found in {folder}")
    names = [str(path.relative_to(folder)) for path in paths]
    sizes = [path.stat().st_size for path in paths]
    return ImageDataset(("image",), np.zeros(len(paths), dtype=np.int64), names, sizes, Files([str(p) for p in paths]))


def read_folder(folder: Path) -> dict[str, ImageDataset]:
    """`train/` and `val/` with a folder for every class in each, or the folders of the classes themselves."""
    below = {entry.name.lower(): entry for entry in sorted(folder.iterdir()) if entry.is_dir()}
    train = next((below[name] for name in _TRAIN if name in below), None)
    val = next((below[name] for name in _VAL if name in below), None)
    if train is None or val is None:
        return {"all": _classes_of(folder)}
    trained, validated = _classes_of(train), _classes_of(val)
    return {"train": trained, "val": validated.with_classes(trained.classes, f"{val} does not fit {train}")}


def _classes_of(folder: Path) -> ImageDataset:
    classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    found = {name: images_below(folder / name) for name in classes}
    classes = [name for name in classes if found[name]]
    if not classes:
        loose = len(images_below(folder))
        there = f"{loose} images in {folder}, but not in folders of classes" if loose else f"no images in {folder}"
        raise ValueError(
            f"{there}; expected one folder for every class with images in it "
            f"({', '.join(SUFFIXES)}), as in {folder}/cat/1.jpg"
        )
    paths = [path for name in classes for path in found[name]]
    labels = np.repeat(np.arange(len(classes)), [len(found[name]) for name in classes])
    return ImageDataset(
        tuple(classes),
        labels,
        names=[str(path.relative_to(folder)) for path in paths],
        sizes=[path.stat().st_size for path in paths],
        opener=Files([str(path) for path in paths]),
    )


def read_table(table: Path) -> dict[str, ImageDataset]:
    """A CSV file with the columns `path` (relative to the file) and `label`, and perhaps `split` (train or val)."""
    with table.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.DictReader(stream)
        columns = [name.strip().lower() for name in reader.fieldnames or ()]
        if not {"path", "label"} <= set(columns):
            raise ValueError(f"expected a first line with the columns path,label in {table}, got {columns}")
        reader.fieldnames = columns
        rows = [row for row in reader if row["path"]]
    if not rows:
        raise ValueError(f"{table} lists no images")
    unlabeled = next((i for i, row in enumerate(rows) if not row["label"]), None)
    if unlabeled is not None:
        raise ValueError(f"{table}: no label for {rows[unlabeled]['path']}")
    classes = sorted({row["label"] for row in rows})
    number = {name: i for i, name in enumerate(classes)}
    paths = [table.parent / row["path"] for row in rows]
    everything = ImageDataset(
        tuple(classes),
        np.array([number[row["label"]] for row in rows], dtype=np.int64),
        names=[row["path"] for row in rows],
        sizes=[path.stat().st_size if path.is_file() else 0 for path in paths],
        opener=Files([str(path) for path in paths]),
    )
    if "split" not in columns:
        return {"all": everything}
    return by_split(everything, np.array([row["split"] for row in rows]), str(table))


def by_split(images: ImageDataset, splits: np.ndarray, where: str) -> dict[str, ImageDataset]:
    """The two parts that a column names."""
    named = {str(name): np.flatnonzero(splits == name) for name in np.unique(splits)}
    train = next((named[name] for name in _TRAIN if name in named), None)
    val = next((named[name] for name in _VAL if name in named), None)
    if train is None or val is None:
        raise ValueError(f"expected the splits train and val (or test) in {where}, got {', '.join(named)}")
    return {"train": images.subset(train), "val": images.subset(val)}
