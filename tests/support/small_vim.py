"""Small Vim and LocalVim networks on a grid that is not square."""

from typing import Any

import torch

from spectral_vmamba.models import timm
from spectral_vmamba.testing import activate_scan

GRID = (3, 5)
SMALL = {"width": 16, "depth": 3, "state_size": 3, "patch_size": 4, "img_size": (12, 20)}


def build_small(name: str, **options) -> Any:
    torch.manual_seed(0)
    return activate_scan(timm.create_model(name, **{"num_classes": 5, "drop_path_rate": 0.0, **SMALL, **options}))


def random_images(batch: int = 2, height: int = 12, width: int = 20) -> torch.Tensor:
    return torch.randn(batch, 3, height, width, generator=torch.Generator().manual_seed(1))
