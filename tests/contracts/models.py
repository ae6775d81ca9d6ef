"""Every registered hierarchical model, in a size that tests quickly: published ones narrow, all else as registered.

Isotropic networks have no stages; tests/models/test_vim.py and test_local_vim.py hold them to timm's contract.
"""

import re

import pytest
import torch

import spectral_vmamba
from spectral_vmamba.models import timm

# Ablations in the paper's sizes are put together from parts that others here have.
NAMES = [name for name in spectral_vmamba.list_models() if not re.search("(rfn|random)_tiny|vim", name)]
# All the kinds of network there are; the rest differ in width and depth alone, and are tested with the slow ones.
KINDS = [name for name in NAMES if not re.search("small|base|micro|msvmamba_nano", name)]
EVERY = [name if name in KINDS else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
_NARROW = {"widths": (16, 32, 64, 128)}


def is_nano(name: str) -> bool:
    """For 32 px; `msvmamba_nano` is one of MSVMamba's published sizes."""
    return name.endswith(("_nano", "_pico")) and name != "msvmamba_nano"


def is_spectral(name: str) -> bool:
    return name.startswith("spectral") or "rfn" in name


def shape(name: str) -> dict:
    """Keywords that make a model of this name small."""
    if is_nano(name):
        return {}
    if name.startswith("msvmamba"):
        return {"widths": (32, 64, 128, 256)}  # narrower, all units of its squeezing layers can be dead by chance
    return {**_NARROW, "stem_weights": "none"} if is_spectral(name) else _NARROW


def build(name: str, **options) -> torch.nn.Module:
    torch.manual_seed(0)
    return timm.create_model(name, **{"num_classes": 7, **shape(name), **options})


def images(name: str, batch: int = 2) -> torch.Tensor:
    side = 32 if is_nano(name) else 160 if is_spectral(name) else 64
    return torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(1))
