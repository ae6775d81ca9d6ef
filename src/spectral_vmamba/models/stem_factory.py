"""Builds the stem a config names."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from torch import nn

from spectral_vmamba.layers import ConvStem, FrozenStem
from spectral_vmamba.models._timm import timm
from spectral_vmamba.models.spectral_config import SpectralConfig
from spectral_vmamba.models.stem_weights import find_stem_weights


def build_stem(config: SpectralConfig, in_chans: int) -> ConvStem | FrozenStem:
    if config.stem == "conv":
        return ConvStem(in_chans, config.stem_channels or config.widths[0], config.patch_size)
    kind, _, name = config.stem.partition(":")
    if kind != "timm" or not name:
        raise ValueError(f"expected a stem 'conv' or 'timm:NAME', got {config.stem!r}")
    body, channels = _timm_network(name, config.patch_size, in_chans, config.stem_weights)
    return FrozenStem(_LastMap(body), channels, in_chans)


def stem_normalization(stem: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and std of pixels (0..1) that a stem expects: its timm configuration's, ImageNet's for the conv stem."""
    config = timm.get_pretrained_cfg(stem.removeprefix("timm:")) if stem.startswith("timm:") else None
    if config is None:
        return IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
    return config.mean, config.std


def first_convolution(stem: str) -> str | None:
    """The name, within a network, of the convolution that sees the pixels; None where the cut-out stem may have another
    one than timm's configuration says."""
    if not stem.startswith("timm:"):
        return "tokenizer.rfn.stem.0"
    name = getattr(timm.get_pretrained_cfg(stem.removeprefix("timm:")), "first_conv", None)
    return f"tokenizer.rfn.stem.body.body.{name}" if isinstance(name, str) and "." not in name else None


class _LastMap(nn.Module):
    """timm's feature extractors answer with a list of maps."""

    def __init__(self, body: nn.Module):
        super().__init__()
        self.body = body

    def forward(self, images):
        return self.body(images)[-1]


def _timm_network(name: str, stride: int, in_chans: int, weights: str | None) -> tuple[nn.Module, int]:
    """The timm network cut after its last stage of the wanted stride, and the channels it has there.

    timm loads weights into the whole network before it cuts, so any network's checkpoint fits.
    """
    if not timm.is_model(name):
        near = timm.list_models(f"*{name.split('.')[0][:6]}*")[:5]
        raise ValueError(f"timm has no model {name!r}" + (f"; close names: {', '.join(near)}" if near else ""))
    with torch.device("meta"):
        stages: Any = timm.create_model(name, features_only=True).feature_info
    strides = stages.reduction()
    if stride not in strides:
        raise ValueError(f"{name} has stages of stride {strides}, none of the patch size {stride}")
    index = len(strides) - 1 - strides[::-1].index(stride)
    found = find_stem_weights(name, weights)
    loads = found is not None and not torch.empty(0).is_meta
    overlay = {"pretrained": True, "pretrained_cfg_overlay": {"state_dict": found}} if loads else {}
    with _errors_only("timm.models._builder"):  # it warns of weights that belong to the part cut off
        body = timm.create_model(name, features_only=True, in_chans=in_chans, out_indices=(index,), **overlay)
    _cut_behind(body, stages.module_name(index))
    return body, stages.channels()[index]


def _cut_behind(body: Any, last: str) -> None:
    """timm's EfficientNets go on to their last stage, whichever is asked for: a quarter of the work of Lite0."""
    container, _, number = last.rpartition(".")
    stages = getattr(body, container, None) if container else None
    if isinstance(stages, nn.Sequential) and number.isdigit():
        setattr(body, container, stages[: int(number) + 1])


@contextmanager
def _errors_only(logger_name: str) -> Iterator[None]:
    logger = logging.getLogger(logger_name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
