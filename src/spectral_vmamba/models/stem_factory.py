"""Build the stem that a configuration names."""

from typing import Any

import torch
from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from torch import Tensor, nn

from spectral_vmamba.layers import ConvStem, PretrainedStem
from spectral_vmamba.models._timm import timm, without_warnings
from spectral_vmamba.models.spectral_config import SpectralConfig
from spectral_vmamba.models.stem_weights import MissingWeightsError, find_stem_weights, find_weights_file


def build_stem(config: SpectralConfig, in_chans: int) -> ConvStem | PretrainedStem:
    """Build the conv stem, or a pretrained timm network cut at the stride `config.patch_size`."""
    if config.stem == "conv":
        return ConvStem(in_chans, config.stem_channels or config.widths[0], config.patch_size)
    kind, _, name = config.stem.partition(":")
    if kind != "timm" or not name:
        raise ValueError(f"expected a stem 'conv' or 'timm:NAME', got {config.stem!r}")
    state, missing = None, None
    if not _is_empty():
        try:
            state = find_stem_weights(name, config.stem_weights)
        except MissingWeightsError as error:  # a checkpoint that is loaded later may contain them
            missing = str(error)
    strides = (*config.finer_strides, config.patch_size)
    body, (*finer, channels) = _build_timm_stem(name, strides, in_chans, state)
    return PretrainedStem(_LastFeatureMap(body), channels, in_chans, missing, tuple(finer), config.freeze_stem)


def check_stem_weights(config: SpectralConfig) -> None:
    """Raise a FileNotFoundError if the stem has pretrained weights that are missing on this machine."""
    if config.stem.startswith("timm:"):
        find_weights_file(config.stem.removeprefix("timm:"), config.stem_weights)


def _is_empty() -> bool:
    """Whether networks are built without values, under `torch.device("meta")` or accelerate's `init_empty_weights`."""
    return nn.LayerNorm(1).weight.is_meta


def stem_normalization(stem: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and std of pixels (0 to 1) that a stem expects: timm's for that network, ImageNet's for the conv
    stem."""
    config = timm.get_pretrained_cfg(stem.removeprefix("timm:")) if stem.startswith("timm:") else None
    if config is None:
        return IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
    return config.mean, config.std


def first_convolution(stem: str) -> str | None:
    """Return the name, within a network, of the convolution that sees the pixels.

    None if timm's configuration names a nested module, which may have another name in the cut network.
    """
    if not stem.startswith("timm:"):
        return "tokenizer.rfn.stem.0"
    name = getattr(timm.get_pretrained_cfg(stem.removeprefix("timm:")), "first_conv", None)
    return f"tokenizer.rfn.stem.body.body.{name}" if isinstance(name, str) and "." not in name else None


class _LastFeatureMap(nn.Module):
    """Take the last map of timm's feature extractors, which return a list."""

    def __init__(self, body: nn.Module):
        super().__init__()
        self.body = body

    def forward(self, images):
        return self.body(images)[-1]

    def maps(self, images):
        return self.body(images)


def _build_timm_stem(
    name: str, strides: tuple[int, ...], in_chans: int, state: dict[str, Tensor] | None
) -> tuple[nn.Module, list[int]]:
    """Return the timm network cut after its last stage of the largest of the given strides, and the channels of its
    last map of each stride.

    timm loads weights into the whole network before it cuts it, so checkpoints of whole networks fit.
    """
    if not timm.is_model(name):
        close = timm.list_models(f"*{name.split('.')[0][:6]}*")[:5]
        raise ValueError(f"timm has no model {name!r}" + (f"; close names: {', '.join(close)}" if close else ""))
    with torch.device("meta"):
        stages: Any = timm.create_model(name, features_only=True).feature_info
    available = stages.reduction()
    *finer, patch_size = strides
    if patch_size not in available:
        raise ValueError(f"{name} has stages of stride {available}, none of the patch size {patch_size}")
    if not set(finer) <= set(available):
        raise ValueError(
            f"{name} has stages of stride {available}, not all of the strides {finer} that pyramid needs; choose "
            f"another stem, such as stem='timm:resnet18', or pass finest_stride=4 or pyramid=False"
        )
    indices = [len(available) - 1 - available[::-1].index(stride) for stride in strides]
    overlay = {"pretrained": True, "pretrained_cfg_overlay": {"state_dict": state}} if state is not None else {}
    with without_warnings("timm.models._builder"):  # timm warns about weights of the part that is cut off
        body = timm.create_model(name, features_only=True, in_chans=in_chans, out_indices=tuple(indices), **overlay)
    _remove_later_stages(body, stages.module_name(indices[-1]))
    return body, [stages.channels()[index] for index in indices]


def _remove_later_stages(body: Any, last: str) -> None:
    """Remove the stages after `last`. timm's EfficientNets always run all stages: for Lite0 a quarter of the work."""
    container, _, number = last.rpartition(".")
    stages = getattr(body, container, None) if container else None
    if isinstance(stages, nn.Sequential) and number.isdigit():
        setattr(body, container, stages[: int(number) + 1])
