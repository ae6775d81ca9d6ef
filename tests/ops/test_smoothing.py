"""Gaussian blur."""

from math import ceil

import pytest
import torch
from scipy.ndimage import gaussian_filter

from spectral_vmamba.ops.smoothing import blur_disk, gaussian_blur


@pytest.mark.parametrize("sigma", [0.7, 1.6])
def test_the_same_as_scipy(sigma):
    images = torch.rand(2, 3, 20, 17, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = gaussian_filter(images.numpy(), sigma, mode="constant", radius=ceil(3 * sigma), axes=(2, 3))
    # The weights of 2 × 11 pixels sum to 1: errors of a few roundings, 1e-16 each.
    torch.testing.assert_close(gaussian_blur(images, sigma), torch.from_numpy(expected), rtol=0, atol=5e-15)


def test_pixels_outside_the_disk_have_no_weight():
    images = torch.rand(2, 3, 20, 20, generator=torch.Generator().manual_seed(0))
    changed = images.clone()
    changed[..., :2, :2] = 100.0  # in a corner, outside the disk
    assert torch.equal(blur_disk(changed, 0.9), blur_disk(images, 0.9))
    constant = blur_disk(torch.full((1, 1, 20, 20), 3.0), 0.9)
    torch.testing.assert_close(constant[..., 0, 8:12], torch.full((1, 1, 4), 3.0))  # the edge of the disk
