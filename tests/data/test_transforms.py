"""Preprocessing and augmentation."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from spectral_vmamba.data.photographs import photographs
from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.data.seeding import reseed
from spectral_vmamba.data.transforms import Augmentation, Preprocessing
from spectral_vmamba.data.turning import turn_to_canonical
from spectral_vmamba.ops.frames import canonical_turn
from spectral_vmamba.utils.peak_memory import measure_growth
from tests.support.image_folders import gray_image

INPUT = Preprocessing(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
CANONICAL = Preprocessing(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), frame="quarter")


def test_views_are_pixels_from_0_to_255():
    plain = Augmentation(hflip=0, color_jitter=0, auto_augment="")
    view = plain.train_transform(INPUT)(gray_image(255, 40))
    assert view.pixels.dtype == torch.uint8
    assert (view.pixels == 255).all()
    assert (INPUT.eval_transform()(gray_image(200, 40)).pixels == 200).all()


def test_evaluation_resizes_the_short_side_and_crops_the_center():
    image = np.zeros((40, 80, 3), np.uint8)
    image[:, 20:60] = 255
    assert (INPUT.eval_transform()(Image.fromarray(image)).pixels[:, :, 2:-2] == 255).all()
    half = Preprocessing(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), crop=0.5)
    image[8:-8, 28:-28] = 7
    assert (half.eval_transform()(Image.fromarray(image)).pixels[:, 8:-8, 8:-8] == 7).all()


@settings(max_examples=50)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_canonical_views_of_all_quarter_turns_are_equal(height, width, seed):
    pixels = np.random.default_rng(seed).integers(0, 3, (height, width, 3), dtype=np.uint8)
    transform = CANONICAL.eval_transform()
    views = [transform(Image.fromarray(np.ascontiguousarray(np.rot90(pixels, quarters)))) for quarters in range(4)]
    assert all(view.pixels.equal(views[0].pixels) for view in views)


def test_the_turn_of_a_canonical_view_is_reported():
    """A photograph of 600 × 400 pixels."""
    pixels = photographs()["coffee"].permute(1, 2, 0).numpy()
    views = [
        CANONICAL.eval_transform()(Image.fromarray(np.ascontiguousarray(np.rot90(pixels, quarters))))
        for quarters in range(4)
    ]
    assert [(view.quarters + quarters) % 4 for quarters, view in enumerate(views)] == [views[0].quarters] * 4
    assert all(view.pixels.equal(views[0].pixels) for view in views)
    assert INPUT.eval_transform()(Image.fromarray(pixels)).quarters == 0


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from(["RGB", "L"]), st.integers(0, 2**32 - 1))
def test_images_are_turned_as_their_arrays_are(height, width, mode, seed):
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    pixels = np.random.default_rng(seed).integers(0, 2, shape, dtype=np.uint8)
    expected, expected_quarters = canonical_turn(pixels)
    image = Image.fromarray(pixels)
    turned, quarters = turn_to_canonical(image)
    assert quarters == expected_quarters
    assert np.array_equal(np.asarray(turned), expected)
    assert (turned is image) == (quarters == 0)


@pytest.mark.parametrize("size", [(4000, 6000), (6000, 4000)], ids=str)
def test_the_turn_of_24_megapixels_takes_one_more_copy(size):
    image = Image.new("RGB", size)
    image.putpixel((0, 0), (9, 9, 9))
    results = []
    growth = measure_growth(lambda: results.append(turn_to_canonical(image)))
    ((_, quarters),) = results
    one_copy = 4 * 4000 * 6000  # Pillow stores RGB pixels in four bytes
    assert growth <= (1.2 if quarters else 0.2) * one_copy


def test_rotation_fills_the_corners_with_black():
    plain = Augmentation(crop_scale=(1, 1), crop_ratio=(1, 1), hflip=0, color_jitter=0, auto_augment="", rotation=45)
    reseed(0)
    pixels = plain.train_transform(INPUT)(gray_image(200, 40)).pixels
    assert pixels[:, 0, 0].max() == 0
    assert (pixels[:, 14:18, 14:18] == 200).all()


def test_erasing_changes_a_rectangle_of_some_images():
    reseed(0)
    images = Augmentation(erasing=0.5).eraser("cpu")(torch.zeros(16, 3, 32, 32))
    erased = (images != 0).flatten(1).sum(1)
    assert 0 < (erased > 0).sum() < 16
    assert erased.max() < 3 * 32 * 32
    assert (Augmentation(erasing=0.0).eraser("cpu")(torch.zeros(16, 3, 32, 32)) == 0).all()


@pytest.mark.parametrize("policy", ["rand-m9-mstd0.5-inc1", "rand-m10-n6-inc1", "augmix-m10", "original", "3a"])
def test_all_automatic_augmentations_run(policy):
    """Including posterization to 0 bits, which Pillow rejects."""
    transform = Augmentation(auto_augment=policy).train_transform(INPUT)
    image = read_digits().open(3)
    for i in range(60):
        reseed(i)
        assert transform(image).pixels.shape == (3, 32, 32)
