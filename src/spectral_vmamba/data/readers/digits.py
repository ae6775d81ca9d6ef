"""The data set that needs no download: 1,797 real handwritten digits that ship inside scikit-learn."""

from typing import Any

import numpy as np

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.readers.npz import of_pixels


def digits() -> ImageDataset:
    """8 × 8 pixels, white ink on black, ten classes."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(f"{error.name} brings the digits; pip install 'spectral-vmamba[train]'") from error
    bunch: Any = load_digits()
    return of_pixels(np.rint(bunch.images * (255 / 16)), bunch.target, "digits", tuple(map(str, range(10))))
