"""Packs of pairs of objects."""

import numpy as np
import pytest

from benchmarks.pairs import COLORS, SIDE, make_digits, make_disks

COUNTS = {"train": 60, "test": 20}


@pytest.mark.parametrize("make", [make_disks, make_digits])
def test_half_of_the_pairs_are_the_same_and_the_same_every_time(make):
    first, second = make(COUNTS), make(COUNTS)
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert first["x_train"].shape[:3] == (60, SIDE, SIDE)
    assert first["x_train"].dtype == np.uint8
    assert 0.3 < first["y_train"].mean() < 0.7
    assert set(first["y_test"]) == {0, 1}


def test_the_class_says_whether_the_disks_have_one_color():
    arrays = make_disks(COUNTS)
    distances = [np.abs(arrays["x_train"] - color.astype(float)).max(-1) < 50 for color in COLORS]
    red, blue = (near.sum((1, 2)) > 15 for near in distances)  # a disk has 45 to 52 pixels
    assert np.array_equal(red & blue, arrays["y_train"] == 0)


def test_objects_are_on_opposite_sides_of_the_center():
    ink = make_digits(COUNTS)["x_train"] > 60
    for image in ink:
        places = np.argwhere(image) - (SIDE - 1) / 2
        first = places[0] / np.linalg.norm(places[0])
        sides = places @ first > 0
        assert 0.15 < sides.mean() < 0.85
        assert np.linalg.norm(places[sides].mean(0) + places[~sides].mean(0)) < 4


def test_training_and_test_images_share_no_digit():
    arrays = make_digits({"train": 400, "test": 100})
    digits = {part: {_one_digit(image) for image in arrays[f"x_{part}"]} for part in COUNTS}
    assert not digits["train"] & digits["test"]


def _one_digit(image: np.ndarray) -> bytes:
    """The pixels of the digit that holds the first ink, without what is around it."""
    ink = np.argwhere(image)
    first = ink[0] - (SIDE - 1) / 2
    own = ink[(ink - (SIDE - 1) / 2) @ first > 0]
    (top, left), (bottom, right) = own.min(0), own.max(0)
    return image[top : bottom + 1, left : right + 1].tobytes()
