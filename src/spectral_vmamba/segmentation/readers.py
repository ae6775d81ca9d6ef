"""From the name of a source (folder, table, pack) to images with masks for training, validation and test."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from spectral_vmamba.data.dataset import UNLABELED, ImageDataset, ImageStorage, format_classes
from spectral_vmamba.data.readers.folder import FileStorage, split_indices
from spectral_vmamba.data.readers.npz import map_files
from spectral_vmamba.data.readers.pack_arrays import open_pack
from spectral_vmamba.data.seeding import SPLIT
from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.segmentation.benchmark_layouts import find_ade20k, find_cityscapes
from spectral_vmamba.segmentation.class_list import (
    CLASS_FILE,
    ClassList,
    find_classes,
    list_classes,
    number_classes,
    read_class_file,
)
from spectral_vmamba.segmentation.layouts import Pair, find_pairs, read_pair_table
from spectral_vmamba.segmentation.mask_decoding import MaskCoding
from spectral_vmamba.segmentation.masked_dataset import MaskedDataset, StoredMasks
from spectral_vmamba.utils.wording import plural

_LAYOUTS = """\
  images/ and masks/, with the same names except for the suffix
  images/train, images/val[, images/test] and the same below masks/
  train/images and train/masks, val/images and val/masks[, test/…]
  ADE20K: images/training, images/validation, annotations/training, annotations/validation
  Cityscapes: leftImg8bit/train, leftImg8bit/val, gtFine/train, gtFine/val"""
_PACK_ARRAYS = ("data", "offset", "mask_data", "mask_offset")


class MaskedSplit(NamedTuple):
    """Validation images choose the best epoch; test images, if there are any, choose nothing."""

    train: MaskedDataset
    val: MaskedDataset
    test: MaskedDataset | None = None


def read_masked_split(split: DataSplit) -> MaskedSplit:
    """The parts of `split.data`, divided as by `DataSplit.read`, but over all images alike: they have no classes.

    Raises ValueError for fewer than two classes, and if the validation data has other classes.
    """
    parts = read_masked_source(split.data)
    train, test = parts.get("train", parts.get("all")), parts.get("test")
    assert train is not None
    if len(train.classes) < 2:
        raise ValueError(
            f"expected at least two classes in {split.data}, got {plural(len(train.classes), 'class', 'classes')}; for "
            f"masks of 0 and 255, list 'background 0 0 0' and 'object 255 255 255' in {CLASS_FILE}"
        )
    if test is not None and split.test_fraction:
        raise ValueError(
            f"{split.data} has test images of its own; expected test_fraction 0, got {split.test_fraction}"
        )
    if split.val_data is not None:
        others = read_masked_source(split.val_data)
        val = others["val"] if "val" in others else others["all"]
        val = _match_classes(val, train, f"{split.val_data} does not match {split.data}")
    elif "val" in parts:
        val = parts["val"]
    else:
        fractions = (split.val_fraction, split.test_fraction) if split.test_fraction else (split.val_fraction,)
        return MaskedSplit(*_hold_out(train, *fractions, seed=split.seed))
    if split.test_fraction:
        train, test = _hold_out(train, split.test_fraction, seed=split.seed)
    return MaskedSplit(train, val, test)


def read_masked_source(source: str) -> dict[str, MaskedDataset]:
    """{"train": …, "val": …} where the source has the two, with "test": … where it has all three, else {"all": …}.

    A folder (`images/` and `masks/`, with or without splits; ADE20K; Cityscapes), a .csv of the columns image, mask and
    optionally split, or a .npz pack. Folders and tables may have a file classes.txt: see `read_class_file`. Without it,
    all masks are read once to find the largest class id.

    A pack has the arrays `data` (image files, concatenated), `offset` (n + 1 positions in it), `mask_data` and
    `mask_offset` alike, and optionally `split`, `classes` (the names of the values in masks) and `ignore` (values to
    ignore, besides those named void).
    """
    path = Path(source)
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        raise FileNotFoundError(
            f"no data at {source}; expected a .csv, a .npz or a folder with one of these layouts:\n{_LAYOUTS}"
        )
    if path.suffix.lower() == ".csv":
        return _read_pairs(read_pair_table(path), path.parent, _read_class_file(path.parent), source)
    if path.suffix.lower() == ".npz":
        return _read_pack(path)
    raise ValueError(f"expected a folder, a .csv or a .npz, got {source}")


def _read_folder(folder: Path) -> dict[str, MaskedDataset]:
    benchmark = find_cityscapes(folder) or find_ade20k(folder)
    if benchmark is not None:
        pairs, classes = benchmark
    else:
        pairs, classes = find_pairs(folder), _read_class_file(folder)
    if pairs is None:
        raise ValueError(f"no images with masks in {folder}; expected one of these layouts:\n{_LAYOUTS}")
    return _read_pairs(pairs, folder, classes, str(folder))


def _read_class_file(folder: Path) -> ClassList | None:
    path = folder / CLASS_FILE
    return read_class_file(path) if path.is_file() else None


class _Files(NamedTuple):
    storage: ImageStorage
    names: Sequence[str]
    sizes: Sequence[int]


def _read_pairs(pairs: list[Pair], root: Path, classes: ClassList | None, source: str) -> dict[str, MaskedDataset]:
    images, masks = _list_files([pair.image for pair in pairs]), _list_files([pair.mask for pair in pairs])
    names = [str(path.relative_to(root) if path.is_relative_to(root) else path) for path, *_ in pairs]
    everything = _build(images._replace(names=names), masks, classes, root=str(root.absolute()))
    has_splits = any(pair.split for pair in pairs)
    return _divide(everything, np.array([pair.split for pair in pairs]) if has_splits else None, source)


def _list_files(paths: Sequence[Path]) -> _Files:
    names = [str(path.absolute()) for path in paths]
    return _Files(FileStorage(names), names, [path.stat().st_size if path.is_file() else 0 for path in paths])


def _read_pack(path: Path) -> dict[str, MaskedDataset]:
    with open_pack(path) as pack:
        missing = [name for name in _PACK_ARRAYS if name not in pack.names]
        if missing:
            raise ValueError(f"expected the arrays {', '.join(_PACK_ARRAYS)}, got no {', '.join(missing)}")
        count = len(pack.read("mask_offset")) - 1
        images = map_files(pack, "data", "offset", count)
        masks = map_files(pack, "mask_data", "mask_offset", count)
        splits, class_names, ignored = (
            pack.read(name) if name in pack.names else None for name in ("split", "classes", "ignore")
        )
    ignored = [] if ignored is None else ignored.astype(np.int64).ravel().tolist()
    classes = None if class_names is None else list_classes([*map(str, class_names)], ignored=ignored)
    names = [f"{path.stem}#{i}" for i in range(count)]
    mask_names = [f"the mask of {name}" for name in names]
    everything = _build(
        _Files(images, names, images.sizes()), _Files(masks, mask_names, masks.sizes()), classes, ignored
    )
    return _divide(everything, splits, str(path))


def _build(
    images: _Files, masks: _Files, classes: ClassList | None, ignored: Sequence[int] = (), root: str | None = None
) -> MaskedDataset:
    count = len(images.names)
    if classes is None:
        classes = find_classes(StoredMasks(masks.storage, masks.names, MaskCoding()), count, ignored)
    checksum = classes.coding.checksum()
    return MaskedDataset(
        ImageDataset((), np.full(count, UNLABELED), images.names, images.sizes, images.storage, root),
        StoredMasks(masks.storage, masks.names, classes.coding),
        classes.classes,
        classes.palette,
        [f"{size} {checksum}" for size in masks.sizes],
    )


def _divide(everything: MaskedDataset, splits: np.ndarray | None, source: str) -> dict[str, MaskedDataset]:
    if splits is None:
        return {"all": everything}
    return {name: everything.subset(index) for name, index in split_indices(splits, source).items()}


def _match_classes(val: MaskedDataset, train: MaskedDataset, context: str) -> MaskedDataset:
    """Validation data whose classes have no names may have fewer of them: the largest id may not occur."""
    unnamed = val.classes == number_classes(len(val.classes)) and len(val.classes) <= len(train.classes)
    if val.classes != train.classes and not unnamed:
        raise ValueError(
            f"{context}: expected the classes {format_classes(train.classes)}, got {format_classes(val.classes)}"
        )
    return replace(val, classes=train.classes, palette=train.palette)


def _hold_out(dataset: MaskedDataset, *fractions: float, seed: int) -> list[MaskedDataset]:
    """The rest, and a seeded part for each fraction: at least one image in each. The first part is the same whatever
    the fractions after it."""
    if not all(0 < fraction < 1 for fraction in fractions) or sum(fractions) >= 1:
        raise ValueError(f"expected fractions between 0 and 1 with a sum below 1, got {', '.join(map(str, fractions))}")
    shuffled = np.random.default_rng([SPLIT, seed]).permutation(len(dataset))
    counts = [max(round(fraction * len(dataset)), 1) for fraction in fractions]
    if sum(counts) >= len(dataset):
        raise ValueError(f"expected at least {len(fractions) + 1} images to split, got {len(dataset)}")
    *drawn, rest = np.split(shuffled, np.cumsum(counts))
    return [dataset.subset(np.sort(index)) for index in (rest, *drawn)]
