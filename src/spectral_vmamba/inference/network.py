"""Build a classifier, and find the preprocessing that it expects."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.models import create_model


def build_classifier(
    name: str, options: dict[str, Any], classes: Sequence[str], drop_path: float | None = None
) -> nn.Module:
    """Create a model for these classes; options that it does not take raise a ValueError."""
    keywords = dict(options)
    if drop_path is not None:
        keywords["drop_path_rate"] = drop_path
    try:
        return create_model(name, num_classes=len(classes), **keywords)
    except TypeError as error:
        raise ValueError(f"{name} does not take these options: {error}") from error


def default_preprocessing(model: Any, size: int | None = None, crop: float | None = None) -> Preprocessing:
    """The preprocessing of a model's `pretrained_cfg`, with another size or crop if given.

    Networks with a canonical frame of their own also get canonical images.
    """
    defaults = model.pretrained_cfg
    return Preprocessing(
        size=size or defaults["input_size"][-1],
        mean=tuple(defaults["mean"]),
        std=tuple(defaults["std"]),
        crop=crop or defaults.get("crop_pct") or 1.0,
        interpolation=defaults.get("interpolation") or "bicubic",
        canonical=bool(getattr(getattr(model, "config", None), "canonical_frame", False)),
    )
