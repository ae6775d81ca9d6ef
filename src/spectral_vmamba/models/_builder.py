"""What the configurations and builders of all families share."""

from functools import partial
from typing import Any

from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.models import build_model_with_cfg
from torch import Tensor, nn

from spectral_vmamba.models.conversion import Convert, pretrained_state


def configuration(first_conv: str | None, size: int = 224, **kwargs) -> Any:
    return {
        "first_conv": first_conv,
        "num_classes": 1000,
        "input_size": (3, size, size),
        "pool_size": None,
        "crop_pct": 1.0 if size < 100 else 0.9,
        "interpolation": "bicubic",
        "fixed_input_size": False,
        "mean": IMAGENET_DEFAULT_MEAN,
        "std": IMAGENET_DEFAULT_STD,
        "classifier": "head",
        "license": "apache-2.0",
        **kwargs,
    }


def as_it_is(state: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """For families that nobody else has released."""
    return state


def build(
    network: type[nn.Module], variant: str, pretrained: bool, features: int, convert: Convert = as_it_is, **kwargs
) -> Any:
    """`features`: how many of the last feature maps `features_only` gives unless told; `convert` reads checkpoints."""
    return build_model_with_cfg(
        network,
        variant,
        pretrained,
        feature_cfg={"out_indices": features, "feature_cls": "getter"},
        pretrained_filter_fn=partial(pretrained_state, convert),
        **kwargs,
    )
