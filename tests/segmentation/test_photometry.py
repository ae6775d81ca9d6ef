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


@pytest.mark.parametrize(("contrast_first", "expected"), [(True, (255, 97, 97)), (False, (255, 75, 75))])
def test_contrast_comes_before_or_after_saturation(monkeypatch, contrast_first, expected):
    """Factors of 1.5: contrast first makes (255, 150, 150), where red is clipped; saturation first (200, 50, 50)."""
    coins = iter([contrast_first, True, True])
    monkeypatch.setattr("spectral_vmamba.segmentation.photometry._coin", lambda: next(coins))
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    distort = PhotometricDistortion(**{**UNCHANGED, "contrast": 0.5, "saturation": 0.5})
    result = np.array(distort(Image.new("RGB", (1, 1), (200, 100, 100))).getpixel((0, 0)))
    assert abs(result - expected).max() <= 3
