"""From the bytes of a mask file to the class id of every pixel."""

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from jaxtyping import Int, UInt8
from PIL import Image

from spectral_vmamba.data.decode import decode_unconverted

IGNORE_INDEX = 255
"""the class id of pixels that belong to no class"""

Color = tuple[int, int, int]

_UNKNOWN = -1
_LARGEST_VALUE = 0xFFFF
_JPEG = b"\xff\xd8\xff"
_PNG = b"\x89PNG"
_WITHOUT_ALPHA = {"LA": "L", "RGBA": "RGB"}
_INTEGER_MODES = ("1", "L", "P", "I", "I;16", "I;16B", "I;16L", "I;16N")


@dataclass(frozen=True)
class MaskCoding:
    """How the pixels of mask files encode classes.

    `ids` maps the values of gray masks and the indices of palette masks to class ids; with None, they are the class
    ids. `colors` maps the colors of RGB masks to class ids, and those of palette masks if all colors that occur in the
    mask are known. If all of the colors are gray, they also decode gray masks of 1 and 8 bits, as those with 0 and 255
    for two classes. A value of `IGNORE_INDEX` that is not mapped is ignored.
    """

    ids: Mapping[int, int] | None = None
    colors: Mapping[Color, int] | None = None

    @property
    def gray_levels(self) -> dict[int, int] | None:
        if self.colors is None or any(len(set(color)) > 1 for color in self.colors):
            return None
        return {color[0]: class_id for color, class_id in self.colors.items()}

    def checksum(self) -> int:
        """Changes with the tables."""
        tables = (sorted((table or {}).items()) for table in (self.ids, self.colors))
        return crc32(repr([*tables]).encode())


def decode_mask(content: bytes, name: str, coding: MaskCoding) -> UInt8[np.ndarray, "h w"]:
    """Decode a mask file, upright by its EXIF tag: gray of 1, 8 or 16 bits, a palette, or RGB.

    Transparency is ignored. Raises ValueError, with `name` in the message, for damaged files, values and colors without
    a class, values that fit no class id, and formats that cannot hold class ids.
    """
    if content.startswith(_JPEG):
        raise ValueError(f"{name} is a JPEG file, which changes class ids; save masks as PNG")
    image = decode_unconverted(content, name)
    if image.mode in _WITHOUT_ALPHA:
        image = image.convert(_WITHOUT_ALPHA[image.mode])
    if image.mode == "RGB":
        return _classes_of_colors(np.asarray(image), name, coding.colors)
    if image.mode not in _INTEGER_MODES:
        raise ValueError(f"{name} has pixels of the mode {image.mode}; expected gray, palette or RGB pixels in a mask")
    values = np.asarray(image).astype(np.int32)
    if image.mode == "P" and coding.colors and _used_colors(image) <= coding.colors.keys():
        return _classes_of_colors(np.asarray(image.convert("RGB")), name, coding.colors)
    levels = coding.gray_levels
    if image.mode == "1" and levels and {0, 255} <= levels.keys():
        return _classes_of_values(values * 255, name, levels)
    if image.mode == "L" and levels:
        return _classes_of_values(values, name, levels)
    return _classes_of_values(values // _gray_step(content), name, coding.ids)


def _used_colors(image: Image.Image) -> set[Color]:
    """The colors of the palette that occur in an image."""
    palette = np.asarray(image.getpalette("RGB"), dtype=np.uint8).reshape(-1, 3)
    used = np.unique(np.asarray(image))
    return {tuple(color) for color in palette[used[used < len(palette)]].tolist()}


def _gray_step(content: bytes) -> int:
    """What Pillow multiplies the values of gray PNG files of 2 or 4 bits by, to scale them to 255."""
    is_gray_png = content.startswith(_PNG) and content[25] == 0
    return {2: 85, 4: 17}.get(content[24], 1) if is_gray_png else 1


def _classes_of_values(
    values: Int[np.ndarray, "h w"], name: str, ids: Mapping[int, int] | None
) -> UInt8[np.ndarray, "h w"]:
    smallest, largest = int(values.min()), int(values.max())
    if smallest < 0 or largest > (_LARGEST_VALUE if ids else IGNORE_INDEX):
        value = smallest if smallest < 0 else largest
        raise ValueError(f"{name} has the value {value}; expected class ids below {IGNORE_INDEX}, or {IGNORE_INDEX}")
    if ids is None:
        return values.astype(np.uint8)
    table = np.full(max(largest, *ids, IGNORE_INDEX) + 1, _UNKNOWN, np.int16)
    table[IGNORE_INDEX] = IGNORE_INDEX
    table[list(ids)] = list(ids.values())
    classes = table[values]
    if (classes == _UNKNOWN).any():
        value = values[classes == _UNKNOWN][0]
        expected = f"{len(ids)} values from {min(ids)} to {max(ids)}, or {IGNORE_INDEX} for pixels to ignore"
        raise ValueError(f"{name} has the value {value}, which is not the id of a class; expected {expected}")
    return classes.astype(np.uint8)


def _classes_of_colors(
    pixels: UInt8[np.ndarray, "h w 3"], name: str, colors: Mapping[Color, int] | None
) -> UInt8[np.ndarray, "h w"]:
    if colors is None:
        raise ValueError(
            f"{name} is an RGB mask, and its colors are unknown; list them in classes.txt next to the data, one class "
            f"per line as in 'road 128 64 128', or save class ids as gray or palette PNG"
        )
    codes = _pack(pixels)
    known = _pack(np.array([*colors], dtype=np.uint8))
    order = np.argsort(known)
    positions = np.searchsorted(known, codes, sorter=order).clip(max=len(known) - 1)
    matches = order[positions]
    unknown = known[matches] != codes
    if unknown.any():
        y, x = np.argwhere(unknown)[0].tolist()
        color = tuple(pixels[y, x].tolist())
        raise ValueError(f"{name} has the color {color} at x = {x}, y = {y}, which is not the color of a class")
    return np.array([*colors.values()], dtype=np.uint8)[matches]


def _pack(colors: UInt8[np.ndarray, "*shape 3"]) -> Int[np.ndarray, "*shape"]:
    red, green, blue = np.moveaxis(colors.astype(np.int32), -1, 0)
    return red << 16 | green << 8 | blue
