"""Every registered model, in a size that tests quickly: the paper's ones with narrow stages, all else as registered."""

import torch

import spectral_vmamba
from spectral_vmamba.models import timm

NAMES = spectral_vmamba.list_models()


def build(name: str, **options) -> torch.nn.Module:
    torch.manual_seed(0)
    if name != "spectral_vmamba_nano":
        options = {"widths": (16, 32, 64, 128), "stem_weights": "none", **options}
    return timm.create_model(name, **{"num_classes": 7, **options})


def images(name: str, batch: int = 2) -> torch.Tensor:
    side = 32 if name == "spectral_vmamba_nano" else 160
    return torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(1))
