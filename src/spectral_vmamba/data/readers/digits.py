"""The built-in dataset: 1,797 handwritten digits that ship with scikit-learn."""

from typing import Any

import numpy as np

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.readers.npz import dataset_from_arrays
from spectral_vmamba.utils.extras import require


def read_digits() -> ImageDataset:
    """8 × 8 pixels, white on black, ten classes."""
    bunch: Any = require("sklearn.datasets", "train").load_digits()
    return dataset_from_arrays(np.rint(bunch.images * (255 / 16)), bunch.target, "digits", tuple(map(str, range(10))))
