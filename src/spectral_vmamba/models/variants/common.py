"""What the configurations and builders of all families share."""

from typing import Any

from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.models import build_model_with_cfg
from torch import nn


def configuration(size: int = 224, **kwargs) -> Any:
    return {
        "num_classes": 1000,
        "input_size": (3, size, size),
        "pool_size": None,
        "crop_pct": 1.0 if size < 100 else 0.9,
        "interpolation": "bicubic",
        "fixed_input_size": False,
        "mean": IMAGENET_DEFAULT_MEAN,
        "std": IMAGENET_DEFAULT_STD,
        "first_conv": None,
        "classifier": "head",
        "license": "apache-2.0",
        **kwargs,
    }


def build(network: type[nn.Module], variant: str, pretrained: bool, stages: int, **kwargs) -> Any:
    features = {"out_indices": tuple(range(stages)), "feature_cls": "getter"}
    return build_model_with_cfg(network, variant, pretrained, feature_cfg=features, **kwargs)
