"""A model for a task, and how images must come to it."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.models import create_model


def build_model(
    name: str, options: dict[str, Any], classes: Sequence[str], drop_path: float | None = None
) -> nn.Module:
    keywords = dict(options)
    if drop_path is not None:
        keywords["drop_path_rate"] = drop_path
    try:
        return create_model(name, num_classes=len(classes), **keywords)
    except TypeError as error:
        raise ValueError(f"{name} does not take these options: {error}") from error


def preprocessing_of(model: Any, size: int | None = None, crop: float | None = None) -> Preprocessing:
    """What the model was made for; size and crop can be others. A network that itself turns images into their
    canonical frame gets them so."""
    made_for = model.pretrained_cfg
    return Preprocessing(
        size=size or made_for["input_size"][-1],
        mean=tuple(made_for["mean"]),
        std=tuple(made_for["std"]),
        crop=crop or made_for.get("crop_pct") or 1.0,
        interpolation=made_for.get("interpolation") or "bicubic",
        canonical=bool(getattr(getattr(model, "config", None), "canonical_frame", False)),
    )
