"""The pack of surfaces."""

import numpy as np
import pytest

pytest.importorskip("skimage", reason="the photographs of scikit-image; install the extra demo")

from benchmarks.textures import CROP, MEAN, SIDE, SURFACES, TRAINING_SHARE, _part, make_textures

COUNTS = {"train": 20, "test": 10}


def test_crops_are_the_same_every_time_and_only_their_texture_differs():
    first, second = make_textures(COUNTS), make_textures(COUNTS)
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert first["x_train"].shape == (len(SURFACES) * 20, SIDE, SIDE)
    assert first["x_train"].dtype == np.uint8
    assert np.bincount(first["y_test"]).tolist() == [10] * len(SURFACES)
    # Clipping and interpolation move the mean, by 3.4 of 255 levels at most in 1,500 crops.
    assert np.abs(first["x_train"].mean((1, 2)) - MEAN).max() < 5


def test_training_and_test_crops_share_no_pixel():
    columns = np.tile(np.arange(100), (CROP, 1))
    train, test = _part(columns, "train"), _part(columns, "test")
    assert train.max() < test.min() == round(100 * TRAINING_SHARE)
