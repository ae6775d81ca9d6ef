"""Registered models in sizes that test quickly: published architectures shrunk, the others as registered."""

from typing import Any

import pytest
import torch
from torch import nn

import spectral_vmamba
from spectral_vmamba.models import FAMILIES, find_family, is_cpu_scale, is_spectral, timm
from spectral_vmamba.models.isotropic import IsotropicBackbone
from spectral_vmamba.models.msvmamba import MSVMamba

NAMES = spectral_vmamba.list_models()
# Every kind of network. The other names differ in width and depth only; their tests are marked full.
KINDS = [name for name in NAMES if is_cpu_scale(name) or name in ("spectral_vmamba_tiny", "local_vim_tiny")]
# The frames of every network; "upright" requires a frozen pretrained stem.
FRAMES = ("none", "quarter", "moment")
ONE_PER_FAMILY = [family.names[0] for family in FAMILIES]


def full_except(names: list[str]) -> list[Any]:
    """Return every name; those that are not among `names` are marked full."""
    return mark_except(names, pytest.mark.full)


def mark_except(names: list[str], mark: pytest.MarkDecorator) -> list[Any]:
    """Return every name; those that are not among `names` have the mark."""
    return [name if name in names else pytest.param(name, marks=mark) for name in NAMES]


def is_isotropic(name: str) -> bool:
    return issubclass(find_family(name).network, IsotropicBackbone)


def small_options(name: str) -> dict[str, Any]:
    """Return keywords that make a model of this name small."""
    if is_cpu_scale(name):
        return {}
    if is_isotropic(name):
        return {"width": 32, "depth": 4, "img_size": 64}
    # In a narrower MSVMamba all units of a squeeze layer can be inactive by chance.
    widths = (32, 64, 128, 256) if issubclass(find_family(name).network, MSVMamba) else (16, 32, 64, 128)
    return {"widths": widths, "depths": (1, 1, 2, 1), **({"stem_weights": "none"} if is_spectral(name) else {})}


def shallow_options(name: str) -> dict[str, Any]:
    """Return keywords for an even smaller model, for tests whose time grows with the depth."""
    return {**small_options(name), **({"depth": 1} if is_isotropic(name) else {"widths": (16, 32), "depths": (1, 1)})}


def build(name: str, **options) -> Any:
    """Build a small model of seven classes with seeded weights."""
    torch.manual_seed(0)
    return timm.create_model(name, **{"num_classes": 7, **small_options(name), **options})


def build_on_meta(name: str, **options) -> Any:
    """Build a model of its registered size, without memory for its weights."""
    with torch.device("meta"):
        return timm.create_model(name, **options)


def example_images(name: str, batch: int = 2) -> torch.Tensor:
    """Return random images of a size that suits the small model of this name."""
    side = timm.get_pretrained_cfg(name).input_size[-1] if is_cpu_scale(name) else 160 if is_spectral(name) else 64
    return torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(1))


def feature_layers(model: Any) -> nn.ModuleList:
    """Return the layers after which feature maps can be taken."""
    return model.blocks if isinstance(model, IsotropicBackbone) else model.stages


def drop_path_rates(model: Any) -> list[float]:
    blocks = [module for module in model.modules() if hasattr(module, "drop_path") and hasattr(module, "mixer")]
    return [getattr(block.drop_path, "drop_prob", 0.0) for block in blocks]


def count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def perturb(model: Any, scale: float) -> Any:
    """Add noise to every trainable parameter, in place, so that none equals another or is too small to matter."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * scale)
    return model
