"""Gaussian blur."""

from math import ceil

import pytest
import torch
from scipy.ndimage import gaussian_filter

from spectral_vmamba.ops.smoothing import gaussian_blur


@pytest.mark.parametrize("sigma", [0.7, 1.6])
def test_the_same_as_scipy(sigma):
    images = torch.rand(2, 3, 20, 17, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = gaussian_filter(images.numpy(), sigma, mode="constant", radius=ceil(3 * sigma), axes=(2, 3))
    # The weights of 2 × 11 pixels sum to 1: errors of a few roundings, 1e-16 each.
    torch.testing.assert_close(gaussian_blur(images, sigma), torch.from_numpy(expected), rtol=0, atol=5e-15)
