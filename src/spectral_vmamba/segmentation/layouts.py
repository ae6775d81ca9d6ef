"""Pairs of image and mask files: in folders `images` and `masks`, in tables, and what they have in common."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from spectral_vmamba.data.readers.folder import SPLIT_NAMES
from spectral_vmamba.data.readers.folder_listing import list_folder, readable_suffixes
from spectral_vmamba.utils.wording import plural

_LISTED = 5  # files that a message names


class Pair(NamedTuple):
    """An image, its mask, and the name of the split that it is in, empty for none."""

    image: Path
    mask: Path
    split: str = ""


def list_subfolders(folder: Path) -> dict[str, Path]:
    """Name in lower case → folder; hidden folders are ignored."""
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    return {entry.name.lower(): entry for entry in entries if entry.is_dir() and not entry.name.startswith(".")}


def pair_folders(
    images: Path, masks: Path, split: str = "", image_ending: str = "", mask_ending: str = ""
) -> list[Pair]:
    """Images and masks with the same path relative to their folders, without suffix, at any depth.

    With endings, only the files whose names end so before the suffix, and they are not compared. Raises ValueError for
    files without a partner, and for two images of one mask or the reverse.
    """
    image_files, mask_files = _index_files(images, image_ending), _index_files(masks, mask_ending)
    problems = [
        _describe_missing("image", images, "a mask", masks, {*image_files} - {*mask_files}, image_files),
        _describe_missing("mask", masks, "an image", images, {*mask_files} - {*image_files}, mask_files),
    ]
    if any(problems):
        raise ValueError("; ".join(filter(None, problems)) + "; expected the same names, except for the suffix")
    if not image_files:
        raise ValueError(f"no images in {images}")
    return [Pair(path, mask_files[key], split) for key, path in image_files.items()]


def pair_parts(parts: Mapping[str, tuple[Path, Path]]) -> list[Pair]:
    """The pairs of all parts, a folder of images and one of masks each, by split; of a single part without a split."""
    named = len(parts) > 1
    return [
        pair for split, (images, masks) in parts.items() for pair in pair_folders(images, masks, split if named else "")
    ]


def find_pairs(folder: Path) -> list[Pair] | None:
    """`images/` and `masks/`, with or without `train/`, `val/` and optionally `test/` in both; or these three with
    `images/` and `masks/` in each. None if the folder has another layout."""
    inside = list_subfolders(folder)
    if {"images", "masks"} <= {*inside}:
        return pair_parts(_parts_inside(inside["images"], inside["masks"]))
    splits = {name: list_subfolders(inside[name]) for name in SPLIT_NAMES if name in inside}
    parts = {name: (sub["images"], sub["masks"]) for name, sub in splits.items() if {"images", "masks"} <= {*sub}}
    return pair_parts(parts) if parts else None


def read_pair_table(table: Path) -> list[Pair]:
    """A CSV file with the columns `image`, `mask` (relative to the file) and optionally `split` (train, val, test)."""
    with table.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.DictReader(stream)
        columns = [name.strip().lower() for name in reader.fieldnames or ()]
        if not {"image", "mask"} <= {*columns}:
            raise ValueError(f"expected a header line with the columns image,mask in {table}, got {columns}")
        reader.fieldnames = columns
        stripped = ({name: (row[name] or "").strip() for name in columns} for row in reader)
        rows = [row for row in stripped if row["image"] or row["mask"]]
    if not rows:
        raise ValueError(f"{table} lists no images")
    for row in rows:
        if not row["image"] or not row["mask"]:
            raise ValueError(
                f"{table}: expected an image and a mask in every row, got only {row['image'] or row['mask']}"
            )
        if "split" in columns and not row["split"]:
            raise ValueError(f"{table}: no split for {row['image']}")
    return [Pair(table.parent / row["image"], table.parent / row["mask"], row.get("split") or "") for row in rows]


def _parts_inside(images: Path, masks: Path) -> dict[str, tuple[Path, Path]]:
    """The splits in `images` and `masks`; both as one part if there are fewer than two."""
    folders = list_subfolders(images)
    splits = [name for name in SPLIT_NAMES if name in folders]
    if len(splits) < 2:
        return {"": (images, masks)}
    loose = [path.name for path in images.iterdir() if path.suffix.lower() in readable_suffixes() and path.is_file()]
    others = [*(name for name in folders if name not in splits), *sorted(loose)]
    if others:
        raise ValueError(f"expected only {', '.join(splits)} in {images}, got also {_shorten(others)}")
    mask_folders = list_subfolders(masks)
    return {name: (folders[name], mask_folders.get(name, masks / name)) for name in splits}


def _index_files(folder: Path, ending: str) -> dict[str, Path]:
    """Relative path without ending and suffix → file. Paths are in one Unicode form: macOS decomposes characters."""
    if not folder.is_dir():
        return {}
    paths, skipped = list_folder(folder)
    if not ending:
        skipped.warn(folder)
    index: dict[str, Path] = {}
    for path in paths:
        if path.stem.endswith(ending):
            key = normalize("NFC", str(path.relative_to(folder).with_suffix("")).removesuffix(ending))
            if key in index:
                raise ValueError(f"{index[key]} and {path} differ only in their suffix; expected one of them")
            index[key] = path
    return index


def _describe_missing(
    kind: str, folder: Path, partner: str, partners: Path, missing: set[str], files: Mapping[str, Path]
) -> str:
    if not missing:
        return ""
    names = [str(files[key].relative_to(folder)) for key in sorted(missing)]
    return f"{plural(len(missing), kind)} in {folder} without {partner} in {partners}: {_shorten(names)}"


def _shorten(names: list[str]) -> str:
    others = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {others:,} more" if others > 0 else "")
