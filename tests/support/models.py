"""Every registered model, in a size that tests quickly: published ones narrow and shallow, all else as registered."""

import re
from typing import Any

import pytest
import torch

import spectral_vmamba
from spectral_vmamba.models import timm
from spectral_vmamba.models.isotropic import IsotropicBackbone
from spectral_vmamba.models.variants import FAMILIES, is_cpu_scale

# Ablations in the paper's sizes are put together from parts that others here have.
NAMES = [name for name in spectral_vmamba.list_models() if not re.search("(rfn|random)_tiny", name)]
# All the kinds of network there are; the rest differ in width and depth alone, and are tested with the slow ones.
KINDS = [name for name in NAMES if is_cpu_scale(name) or name in ("spectral_vmamba_tiny", "local_vim_tiny")]
ONE_OF_EACH = [next(iter(names)) for names in FAMILIES.values()]


def or_slow(chosen: list[str]) -> list[Any]:
    """Every name, those that are not chosen among the slow tests."""
    return [name if name in chosen else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]


def is_spectral(name: str) -> bool:
    return name in FAMILIES["Spectral VMamba"]


def is_isotropic(name: str) -> bool:
    return name in FAMILIES["Vim"] or name in FAMILIES["LocalVim"]


def shape(name: str) -> dict[str, Any]:
    """Keywords that make a model of this name small."""
    if is_cpu_scale(name):
        return {}
    if is_isotropic(name):
        return {"width": 32, "depth": 4, "img_size": 64}
    # Narrower, all units of MSVMamba's squeezing layers can be dead by chance.
    widths = (32, 64, 128, 256) if name in FAMILIES["MSVMamba"] else (16, 32, 64, 128)
    return {"widths": widths, "depths": (1, 1, 2, 1), **({"stem_weights": "none"} if is_spectral(name) else {})}


def shallow(name: str) -> dict[str, Any]:
    """Smaller still, for what takes time by the layer."""
    return {**shape(name), **({"depth": 1} if is_isotropic(name) else {"widths": (16, 32), "depths": (1, 1)})}


def build(name: str, **options) -> Any:
    torch.manual_seed(0)
    return timm.create_model(name, **{"num_classes": 7, **shape(name), **options})


def images(name: str, batch: int = 2) -> torch.Tensor:
    side = timm.get_pretrained_cfg(name).input_size[-1] if is_cpu_scale(name) else 160 if is_spectral(name) else 64
    return torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(1))


def layers(model: Any) -> torch.nn.ModuleList:
    """What a feature map can be taken after."""
    return model.blocks if isinstance(model, IsotropicBackbone) else model.stages


def drop_paths(model: Any) -> list[float]:
    blocks = [module for module in model.modules() if hasattr(module, "drop_path") and hasattr(module, "mixer")]
    return [getattr(block.drop_path, "drop_prob", 0.0) for block in blocks]
