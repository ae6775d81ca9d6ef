"""The built-in digits."""

import numpy as np

from spectral_vmamba.data.readers.digits import read_digits


def test_digits():
    images = read_digits()
    assert len(images) == 1797
    assert images.classes == tuple("0123456789")
    shades = np.asarray(images.open(0))
    assert shades.shape == (8, 8, 3)
    assert shades.max() > 200
