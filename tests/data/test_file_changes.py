"""Images that are turned, resized and saved again."""

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.data import photograph_crops
from spectral_vmamba.data.file_changes import RotatedFile, SavedAgain, change_files
from spectral_vmamba.data.readers.digits import read_digits


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    return Image.fromarray(photograph_crops(1, (60, 100))[0].permute(1, 2, 0).numpy())


def distance(one: Image.Image, other: Image.Image) -> float:
    return float(np.abs(np.asarray(one, float) - np.asarray(other, float)).mean())


@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_png_keeps_every_pixel_of_the_turned_image(photo, quarters):
    assert np.array_equal(np.asarray(SavedAgain(quarters)(photo)), np.rot90(np.asarray(photo), quarters))


def test_jpeg_changes_pixels_and_less_at_higher_quality(photo):
    high, low = (SavedAgain(jpeg_quality=quality)(photo) for quality in (90, 75))
    assert high.size == low.size == photo.size
    assert 0 < distance(photo, high) < distance(photo, low) < 10


@pytest.mark.parametrize(
    ("side", "scale", "expected"), [(100, 0.98, 98), (100, 1.02, 102), (8, 0.98, 7), (8, 1.02, 9), (1, 0.98, 1)]
)
def test_both_sides_are_scaled_by_at_least_one_pixel(side, scale, expected):
    changed = SavedAgain(1, scale)(Image.new("RGB", (2 * side, side)))
    assert changed.size[0] == expected
    assert changed.size[1] == {98: 196, 102: 204, 7: 15, 9: 17, 1: 1}[expected]


def test_multiples_of_90_are_exact(photo):
    rotated = RotatedFile(270.0, "black")(photo)
    assert np.array_equal(np.asarray(rotated), np.rot90(np.asarray(photo), 3))


def test_corners_are_black_reflected_or_outside_the_disk():
    white = Image.new("RGB", (40, 40), "white")
    black, reflect, disk = (np.asarray(RotatedFile(45.0, fill)(white)) for fill in ("black", "reflect", "disk"))
    assert black[0, 0].tolist() == disk[0, 0].tolist() == [0, 0, 0]
    assert (reflect == 255).all()
    assert black[1, 20].tolist() == disk[1, 20].tolist() == [255, 255, 255]
    upright = np.asarray(RotatedFile(0.0, "disk")(white))
    assert upright[0, 0].tolist() == [0, 0, 0]
    assert upright[1, 20].tolist() == [255, 255, 255]


def test_a_reflected_rotation_has_the_same_middle_as_a_black_one(photo):
    one, other = (np.asarray(RotatedFile(30.0, fill)(photo), int) for fill in ("reflect", "black"))
    assert one.shape == other.shape
    assert np.abs(one - other)[20:40, 40:60].max() <= 1  # the padded canvas has its center at other coordinates


def test_rotation_is_counterclockwise():
    """A bright right edge moves to the top."""
    pixels = np.zeros((41, 41, 3), np.uint8)
    pixels[19:22, 36:] = 255
    rotated = np.asarray(RotatedFile(80.0, "black")(Image.fromarray(pixels)), float)
    assert rotated[:10].sum() > 0.9 * rotated.sum()


def test_a_dataset_changes_images_when_they_are_opened():
    digits = read_digits()
    turned = change_files(digits, SavedAgain(1))
    assert np.array_equal(np.asarray(turned.open(3)), np.rot90(np.asarray(digits.open(3))))
    assert np.array_equal(turned.labels, digits.labels)


def test_an_expanded_canvas_cuts_nothing_off():
    pixels = np.full((20, 30, 3), 200, np.uint8)
    rotated = np.asarray(RotatedFile(30.0, expand=True)(Image.fromarray(pixels)))
    assert rotated.shape[0] > 20
    assert rotated.shape[1] > 30
    assert (rotated[0, 0] == 0).all(), "corners are black"
    # bicubic edges are half black: the area of bright pixels is that of the image, up to its perimeter
    assert abs(int((rotated[..., 0] > 100).sum()) - 600) <= 2 * (20 + 30)
    assert RotatedFile(90.0, expand=True)(Image.fromarray(pixels)).size == (20, 30)


def test_a_rotated_file_can_be_a_jpeg():
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    png, jpeg = (np.asarray(RotatedFile(90.0, jpeg_quality=quality)(Image.fromarray(pixels))) for quality in (None, 75))
    assert np.array_equal(png, np.rot90(pixels))
    assert not np.array_equal(jpeg, png)
