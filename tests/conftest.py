import pytest
import torch

from spectral_vmamba.data import normalize, photograph_crops, resize

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def crops():
    """crops(count, size) → normalized windows of real photographs; below 64 px they are scaled-down 224-px ones."""

    def make(count: int, size: int | tuple[int, int]) -> torch.Tensor:
        if isinstance(size, int) and size < 64:
            pixels = resize(photograph_crops(count, 224), size)
        else:
            pixels = photograph_crops(count, size).float()
        return normalize(pixels, *IMAGENET)

    return make
