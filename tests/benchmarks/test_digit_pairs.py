"""Pairs of digits: the label, where the digits are, and that no digit is in both parts."""

import numpy as np
import pytest

from benchmarks.digit_pairs import DIGIT, DISTANCE, SIDE, draw_pair, make_pack


def test_the_label_says_whether_the_digits_are_the_same():
    labels = np.repeat(np.arange(5), 4)
    images = [np.full((DIGIT, DIGIT), 10 * label + 10, np.uint8) for label in labels]
    generator = np.random.default_rng(0)
    drawn = [draw_pair(generator, images, labels, np.arange(len(labels))) for _ in range(300)]
    for canvas, same in drawn:
        assert len(np.unique(canvas[canvas > 0])) == (1 if same else 2)
        assert np.count_nonzero(canvas) == 2 * DIGIT**2  # the digits do not overlap
    assert np.mean([same for _, same in drawn]) == pytest.approx(0.5, abs=4 * 0.5 / 300**0.5)


def test_the_digits_are_on_opposite_sides_in_every_direction():
    images, generator = [np.full((DIGIT, DIGIT), value, np.uint8) for value in (1, 2)], np.random.default_rng(0)
    quadrants = set()
    for _ in range(100):
        canvas, same = draw_pair(generator, images, np.arange(2), np.arange(2))
        if not same:
            first, second = (np.argwhere(canvas == value).mean(0) - (SIDE - 1) / 2 for value in (1, 2))
            assert np.abs(first + second).max() <= 1  # rounded to pixels
            assert np.hypot(*first) == pytest.approx(DISTANCE, abs=1)
            quadrants.add((first[0] > 0, first[1] > 0))
    assert len(quadrants) == 4


def test_a_pack_is_the_same_every_time_and_shares_no_digit():
    pack, again = (make_pack({"train": 400, "test": 100}) for _ in range(2))
    assert all(np.array_equal(pack[name], again[name]) for name in pack)
    assert pack["x_train"].shape == (400, SIDE, SIDE)
    assert set(pack["y_test"]) == {0, 1}
    digits = {part: {_digit(canvas) for canvas in pack[f"x_{part}"]} for part in ("train", "test")}
    assert not digits["train"] & digits["test"]


def _digit(canvas):
    """The pixels of the digit of the upper half, without its dark border."""
    rows, columns = np.nonzero(canvas[: SIDE // 2])
    return canvas[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1].tobytes()
