"""Table 1 of the paper: every family at about a million parameters, from scratch, and what the stem adds."""

from typing import Any

from spectral_vmamba.models import find_family
from spectral_vmamba.studies.accuracy_studies import AccuracyStudy
from spectral_vmamba.studies.study import StudyOptions
from spectral_vmamba.studies.variants import Variant

_SIDE = 32
_MULTIPLE = 8  # pixels: of the sides of images that all networks of this size take
_LITE0 = "timm:tf_efficientnet_lite0"
_NANO: dict[str, tuple[str, dict[str, Any]]] = {
    "Spectral VMamba, conv stem, trained": ("spectral_vmamba_nano", {}),
    "Spectral VMamba, Lite0 stem, random, frozen": ("spectral_vmamba_nano", {"stem": _LITE0, "stem_weights": "none"}),
    "Spectral VMamba, Lite0 stem, random, trained": (
        "spectral_vmamba_nano",
        {"stem": _LITE0, "stem_weights": "none", "freeze_stem": False},
    ),
    "Spectral VMamba, Lite0 stem, ImageNet, frozen": (
        "spectral_vmamba_nano",
        {"stem": _LITE0, "stem_weights": "required"},
    ),
    "VMamba": ("vmamba_nano", {}),
    "MSVMamba": ("msvmamba_pico", {}),
    "Vim": ("vim_nano", {}),
    "LocalVim": ("local_vim_nano", {}),
    # timm's, made as small: the registered ones have 5 million parameters or more.
    "DeiT": (
        "deit_tiny_patch16_224",
        {"patch_size": 4, "embed_dim": 128, "depth": 5, "num_heads": 4},
    ),
    "Swin": (
        "swin_tiny_patch4_window7_224",
        {
            "patch_size": 2,
            "window_size": 4,
            "embed_dim": 44,
            "depths": [2, 2, 2],
            "num_heads": [2, 4, 8],
        },
    ),
    "XCiT": (
        "xcit_nano_12_p8_224",
        {"patch_size": 8, "embed_dim": 128, "depth": 4, "cls_attn_layers": 1, "num_heads": 4, "eta": 1.0},
    ),
}
_PAPER = (
    "deit_small_patch16_224",
    "swin_tiny_patch4_window7_224",
    "xcit_small_24_p16_224",
    "vim_small",
    "msvmamba_tiny",
    "local_vim_small",
    "vmamba_tiny",
    "spectral_vmamba_tiny",
    "spectral_vmamba_small",
    "spectral_vmamba_base",
)


def family_variants(options: StudyOptions) -> list[Variant]:
    scale = options.settings_of_scale
    if scale.name == "lite":
        raise ValueError(
            "table1 compares networks that are trained from scratch; choose the scale digits, nano or paper"
        )
    if scale.name == "paper":
        return [_variant(name, name, {}, options.image_size) for name in _PAPER]
    if (options.image_size or _SIDE) % _MULTIPLE:
        raise ValueError(
            f"table1 compares networks with patches of up to {_MULTIPLE} pixels; expected an image size that is a "
            f"multiple of {_MULTIPLE}, got {options.image_size}"
        )
    return [_variant(label, name, own, options.image_size or _SIDE) for label, (name, own) in _NANO.items()]


def _variant(label: str, model: str, own: dict[str, Any], image_size: int | None) -> Variant:
    """As published: without a frame. timm's networks have no such option, and are built for one size of images."""
    if find_family(model):
        return Variant(label, {"model": model, "model_options": own, "frame": "none"})
    if image_size is None:
        return Variant(label, {"model": model, "model_options": own})
    return Variant(label, {"model": model, "model_options": {"img_size": image_size, **own}, "image_size": image_size})


def _paper_network(label: str) -> str:
    """The label of the network of the paper at the same scale."""
    return "spectral_vmamba_tiny" if label in _PAPER else next(iter(_NANO))


TABLE1 = AccuracyStudy(
    "table1", "every family at the same size, from scratch", "Table 1", family_variants, reference=_paper_network
)
