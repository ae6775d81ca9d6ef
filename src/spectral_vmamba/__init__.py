"""Spectral VMamba: rotation-invariant vision on CPU and GPU. Importing it registers its models with timm."""

from importlib import import_module
from typing import TYPE_CHECKING

from spectral_vmamba._version import __version__
from spectral_vmamba.models import SpectralConfig, SpectralVMamba, create_model, invariant, list_models
from spectral_vmamba.ops.selective_scan import selective_scan
from spectral_vmamba.ops.spectral import spectral_traversal
from spectral_vmamba.ops.traversal import Traversal

if TYPE_CHECKING:
    from spectral_vmamba.data.transforms import Augmentation
    from spectral_vmamba.inference import certify, evaluate, from_pretrained, load_timm, save_for_hub
    from spectral_vmamba.loading import load
    from spectral_vmamba.metrics.environment import Environment
    from spectral_vmamba.metrics.rotation import rotation_gap
    from spectral_vmamba.retrieval import EmbedConfig, embed, search
    from spectral_vmamba.segmentation import (
        SegmentConfig,
        create_segmenter,
        evaluate_segmenter,
        fit_segmenter,
        segment_recipe,
    )
    from spectral_vmamba.training import OptimizerConfig, TrainConfig, fit, recipe

# Imported on first use, so that importing the backbone stays fast.
_LAZY = {
    "Augmentation": "data.transforms",
    "EmbedConfig": "retrieval",
    "OptimizerConfig": "training",
    "SegmentConfig": "segmentation",
    "TrainConfig": "training",
    "certify": "inference",
    "create_segmenter": "segmentation",
    "embed": "retrieval",
    "evaluate": "inference",
    "evaluate_segmenter": "segmentation",
    "fit": "training",
    "fit_segmenter": "segmentation",
    "from_pretrained": "inference",
    "load": "loading",
    "load_timm": "inference",
    "recipe": "training",
    "rotation_gap": "metrics.rotation",
    "save_for_hub": "inference",
    "search": "retrieval",
    "segment_recipe": "segmentation",
}


def __getattr__(name: str):
    if name in _LAZY:
        return getattr(import_module(f"spectral_vmamba.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


def info() -> "Environment":
    """Return versions, the machine and the backends, with the reason for each missing one.

    >>> import spectral_vmamba
    >>> spectral_vmamba.info()  # doctest: +ELLIPSIS
    spectral-vmamba ...
    """
    from spectral_vmamba.metrics.environment import measure_environment

    return measure_environment()


__all__ = [
    "Augmentation",
    "EmbedConfig",
    "OptimizerConfig",
    "SegmentConfig",
    "SpectralConfig",
    "SpectralVMamba",
    "TrainConfig",
    "Traversal",
    "__version__",
    "certify",
    "create_model",
    "create_segmenter",
    "embed",
    "evaluate",
    "evaluate_segmenter",
    "fit",
    "fit_segmenter",
    "from_pretrained",
    "info",
    "invariant",
    "list_models",
    "load",
    "load_timm",
    "recipe",
    "rotation_gap",
    "save_for_hub",
    "search",
    "segment_recipe",
    "selective_scan",
    "spectral_traversal",
]
