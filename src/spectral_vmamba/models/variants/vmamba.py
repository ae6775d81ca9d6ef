"""VMamba in the sizes of its paper (v05_noz), and a nano one."""

from timm.models import generate_default_cfgs, register_model

from spectral_vmamba.models._builder import build, configuration
from spectral_vmamba.models.vmamba import VMamba, convert_vmamba

_PAPER = "VMamba: Visual State Space Model"

default_cfgs = generate_default_cfgs(
    {
        f"vmamba_{name}.untrained": configuration("tokenizer.stem.0", size, paper_name=_PAPER)
        for name, size in {"nano": 32, "tiny": 224, "small": 224, "base": 224}.items()
    }
)


def _build(variant: str, pretrained: bool, **kwargs) -> VMamba:
    return build(VMamba, variant, pretrained, len(kwargs["widths"]), convert_vmamba, **kwargs)


@register_model
def vmamba_nano(pretrained: bool = False, **kwargs) -> VMamba:
    """The depths and about the parameters of `spectral_vmamba_nano`: for fair comparisons on a CPU, 32 to 64 px."""
    architecture = {"widths": (48, 96, 192), "depths": (2, 3, 1), "expand": 1.5}
    return _build("vmamba_nano", pretrained, **{**architecture, **kwargs})


@register_model
def vmamba_tiny(pretrained: bool = False, **kwargs) -> VMamba:
    """T, s1l8."""
    architecture = {"widths": (96, 192, 384, 768), "depths": (2, 2, 8, 2), "expand": 1.0, "drop_path_rate": 0.2}
    return _build("vmamba_tiny", pretrained, **{**architecture, **kwargs})


@register_model
def vmamba_small(pretrained: bool = False, **kwargs) -> VMamba:
    """S, s2l15. With `drop_path_rate=0.6` it is the likeliest network behind the spectral paper's row "VMamba-B"."""
    architecture = {"widths": (96, 192, 384, 768), "depths": (2, 2, 15, 2), "expand": 2.0, "drop_path_rate": 0.3}
    return _build("vmamba_small", pretrained, **{**architecture, **kwargs})


@register_model
def vmamba_base(pretrained: bool = False, **kwargs) -> VMamba:
    """B, s2l15."""
    architecture = {"widths": (128, 256, 512, 1024), "depths": (2, 2, 15, 2), "expand": 2.0, "drop_path_rate": 0.6}
    return _build("vmamba_base", pretrained, **{**architecture, **kwargs})
