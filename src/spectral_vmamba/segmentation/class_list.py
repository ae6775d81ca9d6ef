"""The classes of a dataset by their names, with the colors that encode and show them."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spectral_vmamba.segmentation.mask_decoding import IGNORE_INDEX, Color, MaskCoding
from spectral_vmamba.segmentation.masked_dataset import MaskStorage, default_palette

CLASS_FILE = "classes.txt"
VOID_NAMES = ("void", "ignore", "ignored", "unlabeled")
"""names in a list of classes that mean pixels to ignore"""

_LINE = re.compile(r"(.*?\S)(?:\s+(\d+)\s+(\d+)\s+(\d+))?")


@dataclass(frozen=True)
class ClassList:
    """Names and colors of the classes, and how mask files encode them."""

    classes: tuple[str, ...]
    palette: tuple[Color, ...]
    coding: MaskCoding


def list_classes(
    names: Sequence[str], colors: Sequence[Color] | None = None, ignored: Collection[int] = ()
) -> ClassList:
    """The classes of masks whose value i means names[i], or with colors, whose color colors[i] does.

    Names such as `void` (`VOID_NAMES`), and values in `ignored`, are no classes: their pixels are ignored, and the
    classes that follow have smaller ids than values.
    """
    kept = [i for i, name in enumerate(names) if name.lower() not in VOID_NAMES and i not in ignored]
    class_ids = dict.fromkeys((*range(len(names)), *ignored), IGNORE_INDEX) | {raw: i for i, raw in enumerate(kept)}
    coding = MaskCoding(
        ids=class_ids if len(kept) < len(class_ids) else None,
        colors={color: class_ids[i] for i, color in enumerate(colors)} if colors is not None else None,
    )
    palette = default_palette(len(kept)) if colors is None else tuple(colors[i] for i in kept)
    return ClassList(tuple(names[i] for i in kept), palette, coding)


def number_classes(count: int) -> tuple[str, ...]:
    """Names for classes that have none."""
    return tuple(f"class {i}" for i in range(count))


def find_classes(masks: MaskStorage, count: int, ignored: Collection[int] = ()) -> ClassList:
    """Numbered classes up to the largest id in `count` masks, all of which are read; those in `ignored` are no classes.

    Unreadable masks are left out; if all of them are, the first error is raised. Raises ValueError if most of the ids
    never occur: some masks have other values than class ids then.
    """
    found: set[int] = set()
    first_error, readable = None, 0
    for i in range(count):
        try:
            mask = masks.decode(i, masks.content(i))
        except ValueError as error:
            first_error = first_error or error
            continue
        readable += 1
        found |= {0, *np.unique(mask).tolist()} - {IGNORE_INDEX}
    if first_error and not readable:
        raise first_error
    largest = max(found, default=-1)
    if 2 * len(found) < largest + 1:
        listed = ", ".join(map(str, sorted(found)))
        raise ValueError(
            f"the masks have the values {listed}, most ids below {largest} never occur; list the classes in "
            f"{CLASS_FILE} next to the data, one per line, with the color of each if masks have colors"
        )
    return list_classes(number_classes(largest + 1), ignored=ignored)


def read_class_file(path: Path) -> ClassList:
    """One class per line: `name`, or `name r g b` with the color of the class in RGB masks."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{path} lists no classes; expected one per line, as in 'road' or 'road 128 64 128'")
    parsed = [match.groups() for line in lines if (match := _LINE.fullmatch(line))]
    names = [name for name, *_ in parsed]
    colored = [(name, (int(red), int(green), int(blue))) for name, red, green, blue in parsed if red is not None]
    if not colored:
        return list_classes(names)
    if len(colored) < len(names):
        without = next(name for name, red, *_ in parsed if red is None)
        raise ValueError(f"{path}: no color for {without!r}; expected colors for all classes or for none")
    colors = [color for _, color in colored]
    for name, color in colored:
        if max(color) > 255:
            raise ValueError(f"{path}: expected a color from 0 0 0 to 255 255 255 for {name!r}, got {color}")
        if colors.count(color) > 1:
            raise ValueError(f"{path}: the color {color} of {name!r} is also that of another class")
    return list_classes(names, colors)
