"""Spectral VMamba: rotation-invariant vision on CPU and GPU. Importing it registers its models with timm."""

from typing import TYPE_CHECKING

from spectral_vmamba._version import __version__
from spectral_vmamba.models import SpectralConfig, SpectralVMamba, create_model, list_models
from spectral_vmamba.ops.selective_scan import selective_scan
from spectral_vmamba.ops.spectral import spectral_traversal
from spectral_vmamba.ops.traversal import Traversal

if TYPE_CHECKING:
    from spectral_vmamba.engine import TrainConfig, certify, evaluate, fit, load, recipe

_ENGINE = ("TrainConfig", "certify", "evaluate", "fit", "load", "recipe")


def __getattr__(name: str):
    """Training and its kin are imported when they are used: they need the extra `train`."""
    if name in _ENGINE:
        from spectral_vmamba import engine

        return getattr(engine, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def info():
    """Versions, backends and why one is missing, as `spectral-vmamba info` prints them."""
    from spectral_vmamba.analysis.environment import measure_environment

    return measure_environment()


__all__ = [
    "SpectralConfig",
    "SpectralVMamba",
    "TrainConfig",
    "Traversal",
    "__version__",
    "certify",
    "create_model",
    "evaluate",
    "fit",
    "info",
    "list_models",
    "load",
    "recipe",
    "selective_scan",
    "spectral_traversal",
]
