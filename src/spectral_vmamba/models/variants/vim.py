"""Vim and LocalVim in the sizes of their papers, and nano ones."""

from timm.models import generate_default_cfgs, register_model

from spectral_vmamba.models._builder import build, configuration
from spectral_vmamba.models.local_vim import LocalVim, convert_local_vim
from spectral_vmamba.models.vim import Vim, convert_vim

_VIM = "Vision Mamba: Efficient Visual Representation Learning with Bidirectional State Space Model"
_LOCAL_VIM = "LocalMamba: Visual State Space Model with Windowed Selective Scan"

default_cfgs = generate_default_cfgs(
    {
        f"{family}_{name}.untrained": configuration("patch_embed", size, paper_name=paper)
        for family, paper in (("vim", _VIM), ("local_vim", _LOCAL_VIM))
        for name, size in {"nano": 32, "tiny": 224, "small": 224}.items()
    }
)


def _vim(variant: str, pretrained: bool, **kwargs) -> Vim:
    return build(Vim, variant, pretrained, min(3, kwargs["depth"]), convert_vim, **kwargs)


def _local_vim(variant: str, pretrained: bool, **kwargs) -> LocalVim:
    return build(LocalVim, variant, pretrained, min(3, kwargs["depth"]), convert_local_vim, **kwargs)


@register_model
def vim_nano(pretrained: bool = False, **kwargs) -> Vim:
    """About the parameters of `spectral_vmamba_nano`, and its one state per channel: for comparisons at 32 px."""
    architecture = {"width": 160, "depth": 6, "state_size": 1, "patch_size": 4, "img_size": 32}
    return _vim("vim_nano", pretrained, **{**architecture, **kwargs})


@register_model
def vim_tiny(pretrained: bool = False, **kwargs) -> Vim:
    """T, with the class token in the middle."""
    return _vim("vim_tiny", pretrained, **{"width": 192, "depth": 24, **kwargs})


@register_model
def vim_small(pretrained: bool = False, **kwargs) -> Vim:
    """S, with the class token in the middle."""
    return _vim("vim_small", pretrained, **{"width": 384, "depth": 24, "drop_path_rate": 0.05, **kwargs})


@register_model
def local_vim_nano(pretrained: bool = False, **kwargs) -> LocalVim:
    """About the parameters of `spectral_vmamba_nano`, and its one state per channel: for comparisons at 32 px."""
    architecture = {"width": 144, "depth": 6, "state_size": 1, "patch_size": 4, "img_size": 32}
    return _local_vim("local_vim_nano", pretrained, **{**architecture, "directions": "unsearched", **kwargs})


@register_model
def local_vim_tiny(pretrained: bool = False, **kwargs) -> LocalVim:
    """T, with the directions its search found."""
    architecture = {"width": 192, "depth": 20, "directions": "searched", "drop_path_rate": 0.1}
    return _local_vim("local_vim_tiny", pretrained, **{**architecture, **kwargs})


@register_model
def local_vim_small(pretrained: bool = False, **kwargs) -> LocalVim:
    """S. The published code defines it twice; the later definition, without search, is the one it runs."""
    architecture = {"width": 384, "depth": 20, "directions": "unsearched", "drop_path_rate": 0.1}
    return _local_vim("local_vim_small", pretrained, **{**architecture, **kwargs})
