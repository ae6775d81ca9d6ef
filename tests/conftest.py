"""Fixtures and settings for all tests."""

import hypothesis
import pytest
import torch

from spectral_vmamba.data import normalize, photograph_crops, resize

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

# Test machines are shared: the time of a single example says nothing.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def crops():
    """crops(count, size) → normalized crops of photographs; below 64 px they are scaled-down crops of 224 px."""

    def make(count: int, size: int | tuple[int, int]) -> torch.Tensor:
        if isinstance(size, int) and size < 64:
            pixels = resize(photograph_crops(count, 224), size)
        else:
            pixels = photograph_crops(count, size).float()
        return normalize(pixels, *IMAGENET)

    return make
