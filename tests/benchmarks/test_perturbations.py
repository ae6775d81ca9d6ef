"""Perturbations of images, whose size they keep."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from benchmarks.perturbations import PERTURBATIONS, perturb_image, shift, zoom


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_a_perturbation_changes_an_image_a_little_and_always_the_same(name, crops):
    pixels = (crops(1, (60, 90))[0] * 50 + 128).clamp(0, 255).byte().permute(1, 2, 0).numpy()
    image = Image.fromarray(np.ascontiguousarray(pixels))
    first, second = (perturb_image(image, PERTURBATIONS[name], seed=3) for _ in range(2))
    assert first.size == image.size
    assert np.array_equal(first, second)
    difference = np.abs(np.asarray(first, np.float32) - pixels).mean()
    assert 0 < difference < 40


@pytest.mark.parametrize("name", [name for name in PERTURBATIONS if name.startswith(("blur", "shift", "zoom", "JPEG"))])
def test_an_image_of_one_color_stays_one(name):
    """At its edge, too: a dark edge would be a border."""
    image = Image.new("RGB", (24, 17), (200, 200, 200))
    assert np.abs(np.asarray(perturb_image(image, PERTURBATIONS[name], 0)).astype(int) - 200).max() <= 1


@given(height=st.integers(3, 20), width=st.integers(3, 20), pixels=st.integers(1, 2))
def test_a_shift_is_down_and_to_the_right(height, width, pixels):
    images = torch.rand(1, 3, height, width)
    shifted = shift(images, torch.Generator(), pixels)
    assert torch.equal(shifted[..., pixels:, pixels:], images[..., :-pixels, :-pixels])


@given(height=st.integers(1, 50), width=st.integers(1, 50))
def test_a_zoom_keeps_the_size(height, width):
    assert zoom(torch.rand(1, 3, height, width), torch.Generator(), 1.05).shape == (1, 3, height, width)
