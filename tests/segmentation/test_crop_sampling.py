"""Crops of images and masks show the same place, at any scale and angle."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from spectral_vmamba.segmentation.crop_sampling import CropWindow, draw_window
from tests.support.masked_folders import random_image

FILL = 255
SIDES = st.integers(1, 40)


def half_planes(width: int, height: int, angle: float) -> tuple[Image.Image, np.ndarray]:
    """White on one side of a line through the center, black on the other, and the mask of the white side."""
    y, x = np.mgrid[:height, :width] + 0.5
    mask = (x - width / 2) * np.cos(angle) + (y - height / 2) * np.sin(angle) > 0
    return Image.fromarray(np.repeat(np.uint8(255) * mask[..., None], 3, axis=2)), mask.astype(np.uint8)


@given(SIDES, SIDES, SIDES, st.integers(0, 2**32 - 1))
def test_unscaled_crops_copy_pixels(width, height, size, seed):
    random.seed(seed)
    image = random_image(seed % 1000, width, height)
    mask = np.asarray(image)[..., 0] // 2
    window = draw_window(width, height, size, 1.0, 0.0)
    x = np.arange(window.left, window.left + size)
    y = np.arange(window.top, window.top + size)[:, None]
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    expected = np.asarray(image)[y.clip(0, height - 1), x.clip(0, width - 1)]
    assert np.array_equal(window.inside(), inside)
    assert np.array_equal(np.asarray(window.crop_image(image)), np.where(inside[..., None], expected, 0))
    assert np.array_equal(window.crop_mask(mask, FILL), np.where(inside, expected[..., 0] // 2, FILL))


@given(SIDES, SIDES, SIDES, st.floats(0.1, 8), st.integers(0, 2**32 - 1))
def test_windows_are_inside_the_image_or_around_it(width, height, size, scale, seed):
    random.seed(seed)
    inside = draw_window(width, height, size, scale, 0.0).inside()
    for side, shown in ((width, inside.any(axis=0)), (height, inside.any(axis=1))):
        assert shown.sum() == min(max(round(side * scale), 1), size)
    assert inside.sum() == inside.any(axis=0).sum() * inside.any(axis=1).sum()


@given(
    *(st.integers(30, 80) for _ in range(2)),
    st.integers(20, 60),
    st.floats(0.5, 2),
    st.one_of(st.just(0.0), st.floats(-180, 180)),
    st.floats(0, 6),
    st.integers(0, 2**32 - 1),
)
def test_masks_show_what_images_show(width, height, size, scale, angle, line, seed):
    """Pixels that are clearly white or black have the class of their side."""
    random.seed(seed)
    image, mask = half_planes(width, height, line)
    window = draw_window(width, height, size, scale, angle)
    pixels, classes = np.asarray(window.crop_image(image))[..., 0], window.crop_mask(mask, FILL)
    inside = classes != FILL
    assert np.array_equal(inside, window.inside())
    assert (classes[inside & (pixels > 230)] == 1).all()
    assert (classes[inside & (pixels < 25)] == 0).all()
    assert ((pixels > 230) | (pixels < 25))[inside].mean() > 0.6, "few pixels are on the line"


@given(*(st.integers(10, 40) for _ in range(2)), st.floats(-180, 180), st.integers(0, 2**32 - 1))
def test_an_image_smaller_than_the_crop_turns_in_its_place(width, height, angle, seed):
    """Its center stays where it is, and at most the ends of its longer side leave the crop."""
    random.seed(seed)
    window = draw_window(width, height, 60, 1.0, angle)
    mask = np.zeros((height, width), np.uint8)
    mask[height // 2 - 1 : height // 2 + 2, width // 2 - 1 : width // 2 + 2] = 1
    assert window.crop_mask(mask, FILL)[height // 2 - window.top, width // 2 - window.left] == 1
    assert window.inside().sum() >= 0.8 * min(width, height) ** 2


@pytest.mark.parametrize("angle", [90.0, 180.0, -90.0])
@pytest.mark.parametrize("size", [8, 9])
def test_rotation_is_counterclockwise(angle, size):
    image, mask = random_image(0, size, size), np.arange(size * size, dtype=np.uint8).reshape(size, size)
    window = CropWindow(size, size, 0, 0, size, 1.0, angle)
    quarters = round(angle / 90)
    assert np.array_equal(window.crop_mask(mask, FILL), np.rot90(mask, quarters))
    difference = np.asarray(window.crop_image(image)).astype(int) - np.rot90(np.asarray(image), quarters)
    assert abs(difference).max() <= 1


@pytest.mark.parametrize("scale", [0.3, 0.5, 1.0, 1.7])
def test_a_small_rotation_changes_little(scale):
    """The two ways to resample agree."""
    image = random_image(0, 8, 8).resize((120, 120), Image.Resampling.BICUBIC)
    upright, rotated = (CropWindow(120, 120, 10, 5, 24, scale, angle) for angle in (0.0, 1e-6))
    difference = np.asarray(upright.crop_image(image)).astype(int) - np.asarray(rotated.crop_image(image))
    assert abs(difference).max() <= 12
    assert abs(difference).mean() < 2


def test_corners_of_a_rotated_crop_are_black_and_filled():
    window = CropWindow(20, 20, 0, 0, 20, 1.0, 45.0)
    pixels = np.asarray(window.crop_image(Image.new("RGB", (20, 20), "white")))
    mask = window.crop_mask(np.zeros((20, 20), np.uint8), FILL)
    corners = np.zeros((20, 20), bool)
    corners[[0, 0, -1, -1], [0, -1, 0, -1]] = True
    assert (mask[corners] == FILL).all()
    assert (pixels[corners] == 0).all()
    assert (mask[6:14, 6:14] == 0).all()
    assert (pixels[6:14, 6:14] == 255).all()
