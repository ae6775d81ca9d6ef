"""Every registered model, in a size that tests quickly: published ones with narrow stages, all else as registered."""

import re

import torch

import spectral_vmamba
from spectral_vmamba.models import timm

# Ablations in the paper's sizes are put together from parts that others here have.
NAMES = [name for name in spectral_vmamba.list_models() if not re.search("(rfn|random)_tiny", name)]
_SPECTRAL_SHAPE = {"widths": (16, 32, 64, 128), "stem_weights": "none"}
_VMAMBA_SHAPE = {"widths": (16, 32, 64, 128)}


def is_nano(name: str) -> bool:
    return name.endswith("nano")


def is_spectral(name: str) -> bool:
    return name.startswith("spectral") or "rfn" in name


def shape(name: str) -> dict:
    """Keywords that make a model of this name small."""
    return {} if is_nano(name) else _SPECTRAL_SHAPE if is_spectral(name) else _VMAMBA_SHAPE


def build(name: str, **options) -> torch.nn.Module:
    torch.manual_seed(0)
    return timm.create_model(name, **{"num_classes": 7, **shape(name), **options})


def images(name: str, batch: int = 2) -> torch.Tensor:
    side = 32 if is_nano(name) else 160 if is_spectral(name) else 64
    return torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(1))
