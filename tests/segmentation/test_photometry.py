"""Random changes of colors."""

import random

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.segmentation.photometry import PhotometricDistortion
from tests.support.masked_folders import random_image

UNCHANGED = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}


def results(color: tuple[int, int, int], count: int = 300, **changes: float) -> list[tuple[int, int, int]]:
    random.seed(0)
    distort = PhotometricDistortion(**{**UNCHANGED, **changes})
    image = Image.new("RGB", (1, 1), color)
    return [distort(image).getpixel((0, 0)) for _ in range(count)]


def test_without_changes_the_image_is_returned():
    image = random_image(0)
    assert np.array_equal(np.asarray(PhotometricDistortion(**UNCHANGED)(image)), np.asarray(image))


def test_brightness_adds_the_same_to_all_channels():
    values = np.array(results((100, 150, 250), brightness=32))
    added = values - (100, 150, 250)
    assert (added[:, 0] == added[:, 1]).all()
    assert (added[:, 0].min(), added[:, 0].max()) == (-32, 32)
    assert values.max() == 255, "clipped"


def test_contrast_multiplies():
    values = np.array(results((40, 80, 0), contrast=0.5))
    assert (values[:, 0].min(), values[:, 0].max()) == (20, 60)
    assert (abs(values[:, 1] - 2 * values[:, 0]) <= 1).all()
    assert (values[:, 2] == 0).all()


def test_saturation_keeps_the_largest_channel_and_grays():
    values = np.array(results((200, 100, 100), saturation=0.5))
    assert (values[:, 0] == 200).all()
    assert (abs(values[:, 1].min() - 50) <= 2, abs(values[:, 1].max() - 150) <= 2) == (True, True)
    assert {*results((77, 77, 77), saturation=0.5)} == {(77, 77, 77)}


def test_hue_turns_around_the_circle():
    """By up to a third of it, red becomes green at most in one direction and blue in the other."""
    values = np.array(results((255, 0, 0), count=2000, hue=60))
    assert abs(values - (0, 255, 0)).sum(axis=1).min() <= 12
    assert abs(values - (0, 0, 255)).sum(axis=1).min() <= 12
    assert abs(values - (0, 255, 255)).sum(axis=1).min() >= 240, "cyan is opposite"
    within = np.array(results((255, 0, 0), count=2000, hue=18))
    assert within[:, 0].min() == 255
    assert 140 <= within[:, 1:].max() <= 160, "18 of 180 is 36 of 360 degrees: 0.6 of the way to yellow"


@pytest.mark.parametrize("change", [{"brightness": 32}, {"contrast": 0.5}, {"saturation": 0.5}, {"hue": 18}], ids=str)
def test_each_change_is_applied_to_half_of_the_images(change):
    color = (200, 100, 50)
    changed = np.mean([result != color for result in results(color, 1000, **change)])
    assert 0.42 < changed < 0.55


def test_contrast_comes_before_or_after_saturation():
    """With clipping, the order makes a difference: a factor first saturates red, and green follows or not."""

    def outcomes(order: bool) -> set[tuple[int, int, int]]:
        scaled = lambda color: tuple(min(round(1.5 * value), 255) for value in color)  # noqa: E731

        def saturate(color):
            hue, saturation, value = Image.new("RGB", (1, 1), color).convert("HSV").getpixel((0, 0))
            return Image.new("HSV", (1, 1), (hue, saturation // 2, value)).convert("RGB").getpixel((0, 0))

        color = (200, 40, 40)
        return {saturate(scaled(color)) if order else scaled(saturate(color))}

    first, last = outcomes(True), outcomes(False)
    assert first != last, "the test can tell"
    values = np.array(results((200, 40, 40), 4000, contrast=0.5, saturation=0.5))
    for expected in (*first, *last):
        assert abs(values - expected).sum(axis=1).min() <= 12
