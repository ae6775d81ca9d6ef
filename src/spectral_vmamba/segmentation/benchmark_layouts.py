"""The folders of ADE20K and Cityscapes, as they are distributed."""

import csv
from pathlib import Path

from spectral_vmamba.data.readers.folder_listing import list_folder
from spectral_vmamba.segmentation.class_list import ClassList, number_classes
from spectral_vmamba.segmentation.layouts import Pair, list_subfolders, pair_folders, pair_parts
from spectral_vmamba.segmentation.mask_decoding import IGNORE_INDEX, MaskCoding
from spectral_vmamba.segmentation.masked_dataset import default_palette

_ADE20K_CLASSES = 150
_ADE20K_NAMES = "objectInfo150.txt"

# Label id, name and color of the classes that are trained and evaluated, in the order of their training ids.
_CITYSCAPES = (
    (7, "road", (128, 64, 128)),
    (8, "sidewalk", (244, 35, 232)),
    (11, "building", (70, 70, 70)),
    (12, "wall", (102, 102, 156)),
    (13, "fence", (190, 153, 153)),
    (17, "pole", (153, 153, 153)),
    (19, "traffic light", (250, 170, 30)),
    (20, "traffic sign", (220, 220, 0)),
    (21, "vegetation", (107, 142, 35)),
    (22, "terrain", (152, 251, 152)),
    (23, "sky", (70, 130, 180)),
    (24, "person", (220, 20, 60)),
    (25, "rider", (255, 0, 0)),
    (26, "car", (0, 0, 142)),
    (27, "truck", (0, 0, 70)),
    (28, "bus", (0, 60, 100)),
    (31, "train", (0, 80, 100)),
    (32, "motorcycle", (0, 0, 230)),
    (33, "bicycle", (119, 11, 32)),
)
_CITYSCAPES_IDS = 34


def find_ade20k(folder: Path) -> tuple[list[Pair], ClassList] | None:
    """`images/training` and `images/validation`, with `annotations/` alike. None if the folder has another layout.

    Value 0 is ignored; 1 to 150 are the classes 0 to 149, with the first of their names in objectInfo150.txt.
    """
    inside = list_subfolders(folder)
    if not {"images", "annotations"} <= {*inside}:
        return None
    images, annotations = (list_subfolders(inside[name]) for name in ("images", "annotations"))
    parts = {
        split: (images[split], annotations[split])
        for split in ("training", "validation")
        if split in images and split in annotations
    }
    if not parts:
        return None
    coding = MaskCoding(ids={0: IGNORE_INDEX} | {i + 1: i for i in range(_ADE20K_CLASSES)})
    return pair_parts(parts), ClassList(_ade20k_names(folder), default_palette(_ADE20K_CLASSES), coding)


def find_cityscapes(folder: Path) -> tuple[list[Pair], ClassList] | None:
    """`leftImg8bit/{train,val}/CITY/*_leftImg8bit.png` and `gtFine/{train,val}/CITY/*_gtFine_labelIds.png`, or
    `*_labelTrainIds.png` where there are no label ids. None if the folder has another layout."""
    inside = list_subfolders(folder)
    if not {"leftimg8bit", "gtfine"} <= {*inside}:
        return None
    images, masks = (list_subfolders(inside[name]) for name in ("leftimg8bit", "gtfine"))
    parts = [split for split in ("train", "val") if split in images and split in masks]
    if not parts:
        return None
    has_label_ids = any(path.stem.endswith("_labelIds") for split in parts for path in list_folder(masks[split])[0])
    ending = f"_gtFine_{'labelIds' if has_label_ids else 'labelTrainIds'}"
    pairs = [
        pair for split in parts for pair in pair_folders(images[split], masks[split], split, "_leftImg8bit", ending)
    ]
    names, colors = [name for _, name, _ in _CITYSCAPES], tuple(color for *_, color in _CITYSCAPES)
    ids = dict.fromkeys(range(_CITYSCAPES_IDS), IGNORE_INDEX) | {
        label_id: i for i, (label_id, *_) in enumerate(_CITYSCAPES)
    }
    return pairs, ClassList(tuple(names), colors, MaskCoding(ids if has_label_ids else None))


def _ade20k_names(folder: Path) -> tuple[str, ...]:
    """The column `Name`, such as "building, edifice", of a table that is separated by tabs."""
    path = folder / _ADE20K_NAMES
    if not path.is_file():
        return number_classes(_ADE20K_CLASSES)
    with path.open(newline="", encoding="utf-8-sig") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    names = [row["Name"].split(",")[0].strip() for row in rows if row.get("Name")]
    if len(names) != _ADE20K_CLASSES:
        raise ValueError(f"expected {_ADE20K_CLASSES} rows with a column Name in {path}, got {len(names)}")
    return tuple(names)
