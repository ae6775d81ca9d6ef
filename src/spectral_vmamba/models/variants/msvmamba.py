"""MSVMamba in the sizes of its paper, and a pico one (nano is already one of the paper's)."""

from timm.models import generate_default_cfgs, register_model

from spectral_vmamba.models._builder import build, configuration
from spectral_vmamba.models.msvmamba import MSVMamba, convert_msvmamba

_PAPER = "Multi-Scale VMamba: Hierarchy in Hierarchy Visual State Space Model"

default_cfgs = generate_default_cfgs(
    {
        f"msvmamba_{name}.untrained": configuration("tokenizer.stem.0", size, paper_name=_PAPER)
        for name, size in {"pico": 32, "nano": 224, "micro": 224, "tiny": 224}.items()
    }
)


def _build(variant: str, pretrained: bool, **kwargs) -> MSVMamba:
    return build(MSVMamba, variant, pretrained, len(kwargs["widths"]), convert_msvmamba, **kwargs)


@register_model
def msvmamba_pico(pretrained: bool = False, **kwargs) -> MSVMamba:
    """The depths and about the parameters of `spectral_vmamba_nano`: for fair comparisons on a CPU, 32 to 64 px."""
    architecture = {"widths": (48, 104, 192), "depths": (2, 3, 1)}
    return _build("msvmamba_pico", pretrained, **{**architecture, **kwargs})


@register_model
def msvmamba_nano(pretrained: bool = False, **kwargs) -> MSVMamba:
    """N."""
    architecture = {"widths": (48, 96, 192, 384), "depths": (1, 2, 5, 2), "drop_path_rate": 0.2}
    return _build("msvmamba_nano", pretrained, **{**architecture, **kwargs})


@register_model
def msvmamba_micro(pretrained: bool = False, **kwargs) -> MSVMamba:
    """M."""
    architecture = {"widths": (64, 128, 256, 512), "depths": (1, 2, 5, 2), "drop_path_rate": 0.2}
    return _build("msvmamba_micro", pretrained, **{**architecture, **kwargs})


@register_model
def msvmamba_tiny(pretrained: bool = False, **kwargs) -> MSVMamba:
    """T."""
    architecture = {"widths": (96, 192, 384, 768), "depths": (1, 2, 9, 2), "drop_path_rate": 0.2}
    return _build("msvmamba_tiny", pretrained, **{**architecture, **kwargs})
