"""Mask files of every kind, decoded to class ids."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from spectral_vmamba.segmentation.mask_decoding import IGNORE_INDEX, MaskCoding, decode_mask
from tests.support.masked_folders import encode

IDS = np.array([[0, 1, 2], [2, 255, 1]], np.uint8)
COLORS = np.array([(0, 0, 0), (128, 64, 128), (0, 255, 0)], np.uint8)
PLAIN = MaskCoding()
COLOR_CODING = MaskCoding(colors={tuple(color.tolist()): i for i, color in enumerate(COLORS)})


def decode(content: bytes, coding: MaskCoding = PLAIN) -> list[list[int]]:
    mask = decode_mask(content, "m.png", coding)
    assert mask.dtype == np.uint8
    return mask.tolist()


def gray_png(values: np.ndarray, bits: int) -> bytes:
    """A gray PNG file of 1, 2 or 4 bits per pixel, which Pillow does not write."""
    height, width = values.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b""
    for row in values:
        digits = "".join(f"{value:0{bits}b}" for value in row)
        rows += b"\0" + bytes(int(digits[i : i + 8].ljust(8, "0"), 2) for i in range(0, len(digits), 8))
    header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "BMP"])
def test_gray_values_are_class_ids(kind):
    assert decode(encode(IDS, kind)) == IDS.tolist()


def test_the_indices_of_a_palette_are_class_ids():
    image = Image.fromarray(IDS).convert("P")
    image.putpalette([200, 0, 0] * 256)
    assert image.mode == "P"
    assert decode(encode(image)) == IDS.tolist()


@given(st.sampled_from([1, 2, 4]), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_gray_values_of_few_bits_are_not_scaled(bits, height, width, seed):
    values = np.random.default_rng(seed).integers(0, 2**bits, (height, width))
    assert decode(gray_png(values, bits)) == values.tolist()


def test_masks_of_one_bit_have_the_classes_0_and_1():
    image = Image.fromarray(np.array([[True, False]]))
    assert image.mode == "1"
    assert decode(encode(image)) == [[1, 0]]


def test_values_of_16_bits_that_fit_are_class_ids():
    assert decode(encode(IDS.astype(np.uint16))) == IDS.tolist()
    assert decode(encode(IDS.astype(np.int32), "TIFF")) == IDS.tolist()
    with pytest.raises(ValueError, match=r"m\.png has the value 300; expected class ids below 255, or 255"):
        decode(encode(np.full((2, 2), 300, np.uint16)))
    with pytest.raises(ValueError, match=r"m\.png has the value -1"):
        decode(encode(np.full((2, 2), -1, np.int32), "TIFF"))


def test_large_values_can_be_mapped():
    values = np.array([[1000, 7]], np.uint16)
    assert decode(encode(values), MaskCoding(ids={1000: 1, 7: 0})) == [[1, 0]]


def test_mapped_ids():
    coding = MaskCoding(ids={0: IGNORE_INDEX, 1: 0, 2: 1})
    assert decode(encode(IDS), coding) == [[255, 0, 1], [1, 255, 0]]
    with pytest.raises(ValueError, match=r"m\.png has the value 9, which is not the id of a class; .* from 0 to 2"):
        decode(encode(np.full((2, 2), 9, np.uint8)), coding)


@given(st.integers(0, 2**32 - 1))
def test_colors_are_matched_exactly(seed):
    generator = np.random.default_rng(seed)
    colors = np.unique(generator.integers(0, 256, (20, 3), np.uint8), axis=0)
    ids = generator.integers(0, len(colors), (5, 4))
    order = generator.permutation(len(colors))
    coding = MaskCoding(colors={tuple(colors[i].tolist()): int(i) for i in order})
    assert decode(encode(colors[ids]), coding) == ids.tolist()
    rgba = np.dstack([colors[ids], generator.integers(0, 256, ids.shape, np.uint8)])
    assert decode(encode(rgba), coding) == ids.tolist(), "transparency is ignored"


def test_an_unknown_color_is_named_with_its_place():
    pixels = COLORS[np.array([[0, 1, 2], [2, 1, 0]])]
    pixels[1, 2] = (0, 0, 1)
    with pytest.raises(ValueError, match=r"m\.png has the color \(0, 0, 1\) at x = 2, y = 1"):
        decode(encode(pixels), COLOR_CODING)


def test_colors_without_a_table_say_how_to_give_one():
    with pytest.raises(ValueError, match=r"m\.png is an RGB mask.* classes\.txt .* 'road 128 64 128'"):
        decode(encode(COLORS[None]))


def test_gray_colors_decode_gray_masks():
    """Masks of 0 and 255, as many tools save them."""
    binary = np.array([[0, 255]], np.uint8)
    coding = MaskCoding(colors={(0, 0, 0): 0, (255, 255, 255): 1})
    assert decode(encode(binary), coding) == [[0, 1]]
    assert decode(encode(np.repeat(binary[..., None], 3, axis=2)), coding) == [[0, 1]]
    assert decode(encode(binary), COLOR_CODING) == [[0, 255]], "colored classes: gray values are ids"


def test_orientation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 270°
    assert decode(encode(IDS, exif=exif)) == np.rot90(IDS, 3).tolist()


def test_files_that_cannot_hold_class_ids_are_rejected():
    with pytest.raises(ValueError, match=r"m\.png is a JPEG file"):
        decode(encode(IDS, "JPEG"))
    with pytest.raises(ValueError, match=r"m\.png has pixels of the mode F"):
        decode(encode(IDS.astype(np.float32), "TIFF"))
    with pytest.raises(ValueError, match=r"m\.png cannot be read as an image"):
        decode(b"no image")
    with pytest.raises(ValueError, match=r"m\.png cannot be read as an image"):
        decode(encode(np.zeros((64, 64), np.uint8))[:40])


def test_the_checksum_changes_with_the_tables():
    codings = [MaskCoding(), MaskCoding(ids={0: 1}), MaskCoding(ids={0: 2}), COLOR_CODING]
    assert len({coding.checksum() for coding in codings}) == 4
    assert MaskCoding(ids={0: 1, 1: 2}).checksum() == MaskCoding(ids={1: 2, 0: 1}).checksum()


def test_palette_masks_with_known_colors_are_decoded_by_color():
    """Tools number the colors of a palette in any order."""
    image = Image.fromarray(np.array([[0, 1, 2], [2, 2, 0]], np.uint8), "P")
    image.putpalette([0, 255, 0, 0, 0, 0, 128, 64, 128])
    assert decode(encode(image), COLOR_CODING) == [[2, 0, 1], [1, 1, 2]]
    assert decode(encode(image)) == [[0, 1, 2], [2, 2, 0]]


def test_palette_masks_with_other_colors_are_decoded_by_index():
    image = Image.fromarray(np.array([[0, 1, 2]], np.uint8), "P")
    image.putpalette([0, 0, 0, 9, 9, 9, 200, 0, 0])
    assert decode(encode(image), COLOR_CODING) == [[0, 1, 2]]


def test_masks_of_one_bit_follow_the_gray_levels_of_the_classes():
    image = Image.fromarray(np.array([[True, False]]))
    assert image.mode == "1"
    assert decode(encode(image), MaskCoding(colors={(255, 255, 255): 0, (0, 0, 0): 1})) == [[0, 1]]
    assert decode(encode(image)) == [[1, 0]]
