"""The named models, as timm knows them."""

from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.models import build_model_with_cfg, generate_default_cfgs, register_model

from spectral_vmamba.models.config import SpectralConfig
from spectral_vmamba.models.spectral_vmamba import SpectralVMamba
from spectral_vmamba.models.stems import stem_normalisation


def _cfg(size: int = 224, **kwargs) -> dict:
    return {
        "num_classes": 1000,
        "input_size": (3, size, size),
        "pool_size": None,
        "crop_pct": 0.9,
        "interpolation": "bicubic",
        "fixed_input_size": False,
        "mean": IMAGENET_DEFAULT_MEAN,
        "std": IMAGENET_DEFAULT_STD,
        "first_conv": None,
        "classifier": "head",
        "license": "apache-2.0",
        "paper_name": "Spectral State Space Model for Rotation-Invariant Visual Representation Learning",
        **kwargs,
    }


default_cfgs = generate_default_cfgs(
    {
        "spectral_vmamba_nano.untrained": _cfg(32, crop_pct=1.0),
        "spectral_vmamba_tiny.untrained": _cfg(),
        "spectral_vmamba_small.untrained": _cfg(),
        "spectral_vmamba_base.untrained": _cfg(),
    }
)


def _build(variant: str, pretrained: bool, **kwargs) -> SpectralVMamba:
    mean, std = stem_normalisation(kwargs.get("stem", SpectralConfig.stem))
    overlay = {"mean": mean, "std": std, **(kwargs.pop("pretrained_cfg_overlay", None) or {})}
    return build_model_with_cfg(
        SpectralVMamba,
        variant,
        pretrained,
        pretrained_cfg_overlay=overlay,
        feature_cfg={"out_indices": tuple(range(len(kwargs["widths"]))), "feature_cls": "getter"},
        **kwargs,
    )


@register_model
def spectral_vmamba_nano(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """About a million parameters, a conv stem trained from scratch, 32 to 64 px: for training on a CPU.

    Local mixing is on: without a pretrained stem the paper's block has none, and it shows.
    """
    architecture = {
        "widths": (48, 96, 192),
        "depths": (2, 3, 1),
        "stem": "conv",
        "patch_size": 4,
        "local_mixing": "isotropic",
    }
    return _build("spectral_vmamba_nano", pretrained, **{**architecture, **kwargs})


@register_model
def spectral_vmamba_tiny(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """The paper's T."""
    architecture = {"widths": (256, 512, 1024, 2048), "depths": (2, 2, 5, 2), "drop_path_rate": 0.2}
    return _build("spectral_vmamba_tiny", pretrained, **{**architecture, **kwargs})


@register_model
def spectral_vmamba_small(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """The paper's S."""
    architecture = {"widths": (256, 512, 1024, 2048), "depths": (2, 2, 15, 2), "drop_path_rate": 0.6}
    return _build("spectral_vmamba_small", pretrained, **{**architecture, **kwargs})


@register_model
def spectral_vmamba_base(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """The paper's B: the network of S with a lower drop path rate."""
    architecture = {"widths": (256, 512, 1024, 2048), "depths": (2, 2, 15, 2), "drop_path_rate": 0.3}
    return _build("spectral_vmamba_base", pretrained, **{**architecture, **kwargs})
