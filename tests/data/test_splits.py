"""Divide a dataset into training and validation images."""

import numpy as np
import pytest

from spectral_vmamba.data.readers.npz import dataset_from_arrays
from spectral_vmamba.data.splits import split_counts, split_fraction, split_fractions


def blank_images(labels: np.ndarray):
    return dataset_from_arrays(np.zeros((len(labels), 1, 1)), labels, "p")


def test_fixed_counts_per_class():
    """The mini-ImageNet protocol: a number of each class per part, no image in both, the same for the same seed."""
    images = blank_images(np.arange(60) % 3)
    train, val = split_counts(images, 10, 5, seed=0)
    assert np.bincount(train.labels).tolist() == [10, 10, 10]
    assert np.bincount(val.labels).tolist() == [5, 5, 5]
    assert not set(train.names) & set(val.names)
    assert split_counts(images, 10, 5, seed=0)[0].names == train.names
    assert split_counts(images, 10, 5, seed=1)[0].names != train.names
    rest, _ = split_counts(images, None, 5, seed=0)
    assert np.bincount(rest.labels).tolist() == [15, 15, 15]
    with pytest.raises(ValueError, match="3 classes with fewer than 30 images: 0 has 20"):
        split_counts(images, 20, 10, seed=0)
    with pytest.raises(ValueError, match="at least 1 image per class in each part, got 0 and 5"):
        split_counts(images, 0, 5, seed=0)


def test_a_fraction_of_every_class():
    train, val = split_fraction(blank_images(np.repeat([0, 1], [10, 4])), 0.2, seed=0)
    assert np.bincount(train.labels).tolist() == [8, 3]
    assert np.bincount(val.labels).tolist() == [2, 1]
    for fraction in (0, 1, -0.1):
        with pytest.raises(ValueError, match="fractions between 0 and 1"):
            split_fraction(blank_images(np.array([0, 0])), fraction, seed=0)


def test_a_class_of_one_image_cannot_be_split():
    with pytest.raises(ValueError, match="at least 2 images of every class to split, got 1 of 1"):
        split_fraction(blank_images(np.array([0, 0, 1])), 0.5, 0)


def test_a_class_of_two_images_cannot_be_split_into_three_parts():
    train, val, test = split_fractions(blank_images(np.array([0, 0, 0, 1, 1, 1])), 0.1, 0.1, 0)
    assert test is not None
    assert len(train) == len(val) == len(test) == 2
    with pytest.raises(ValueError, match="at least 3 images of every class to split, got 2 of 1"):
        split_fractions(blank_images(np.array([0, 0, 0, 1, 1])), 0.1, 0.1, 0)
    with pytest.raises(ValueError, match=r"a sum below 1, got 0\.5, 0\.5"):
        split_fractions(blank_images(np.array([0, 0, 0])), 0.5, 0.5, 0)
