"""Spectral VMamba: rotation-invariant vision on CPU and GPU. Importing it registers its models with timm."""

from spectral_vmamba._version import __version__
from spectral_vmamba.models import SpectralConfig, SpectralVMamba, create_model, list_models
from spectral_vmamba.ops.selective_scan import selective_scan
from spectral_vmamba.ops.spectral import spectral_traversal
from spectral_vmamba.ops.traversal import Traversal


def info():
    """Versions, backends and why one is missing, as `spectral-vmamba info` prints them."""
    from spectral_vmamba.analysis.environment import measure_environment

    return measure_environment()


__all__ = [
    "SpectralConfig",
    "SpectralVMamba",
    "Traversal",
    "__version__",
    "create_model",
    "info",
    "list_models",
    "selective_scan",
    "spectral_traversal",
]
