"""Find and create models by name: those of this package and timm's."""

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from torch import nn

from spectral_vmamba.layers import PretrainedStem
from spectral_vmamba.models import local_vim, msvmamba, spectral_vmamba, vim, vmamba
from spectral_vmamba.models._builder import Family
from spectral_vmamba.models._timm import timm
from spectral_vmamba.models.invariant import POSE_OPTIONS, InvariantModel
from spectral_vmamba.models.recorded_options import record_options
from spectral_vmamba.models.spectral_config import SpectralConfig
from spectral_vmamba.ops.frames import Frame, TurnPool

FAMILIES: tuple[Family, ...] = (
    spectral_vmamba.FAMILY,
    vmamba.FAMILY,
    vim.FAMILY,
    local_vim.FAMILY,
    msvmamba.FAMILY,
)
_CPU_SCALE_PIXELS = 200  # models for smaller images than this can be trained on a CPU


def list_models() -> list[str]:
    """Return the names that this package registers with timm, family by family, small to large.

    >>> list_models()[:3]
    ['spectral_vmamba_nano', 'spectral_vmamba_lite', 'spectral_vmamba_tiny']
    """
    return [name for family in FAMILIES for name in family.names]


def find_family(name: str) -> Family | None:
    """Return the family of a registered name, with or without timm's tag; None for models of timm."""
    architecture = name.split(".")[0]
    return next((family for family in FAMILIES if architecture in family.names), None)


def options_off_default(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without those that a registered network has anyway; of other networks, all.

    >>> options_off_default("spectral_vmamba_nano", {"eigenvectors": 4, "neighbors": 10})
    {'neighbors': 10}
    """
    family = find_family(name)
    if family is None:
        return dict(options)
    defaults = record_options(family.config(name))
    chosen = record_options(family.config(name, **options))
    return {key: value for key, value in options.items() if key not in defaults or chosen[key] != defaults[key]}


def option_of(name: str, option: str, options: Mapping[str, Any]) -> Any:
    """The value of an option of a registered network that is created with these options, as it is recorded.

    >>> option_of("spectral_vmamba_no_rfn_nano", "turns", {})
    1
    """
    family = find_family(name)
    if family is None:
        raise ValueError(f"{name} is not a network of this package")
    return record_options(family.config(name, **options)).get(option)


def is_spectral(name: str) -> bool:
    """Return whether a name is of a Spectral VMamba, the only family with a selectable stem."""
    family = find_family(name)
    return family is not None and issubclass(family.network, spectral_vmamba.SpectralVMamba)


def is_cpu_scale(name: str) -> bool:
    """Whether a registered name is of a small network for small images, made for comparisons on a CPU."""
    config = timm.get_pretrained_cfg(name)
    return config is not None and config.input_size[-1] < _CPU_SCALE_PIXELS


def create_model(name: str, **kwargs: Any) -> Any:
    """Create a model of this package or of timm, as `timm.create_model` does.

    An unknown name raises a ValueError that lists similar names. Weights of a stem that are required, but neither
    installed nor in a checkpoint, raise a FileNotFoundError that tells how to get them. (`timm.create_model` loads
    `checkpoint_path` after building the network, so with timm that error comes with the first use.) timm drops keywords
    that are None; for models of this package they are kept, because None is a valid choice for some of them.
    The options `frame`, `turns` and `turn_pool` work with every model: see `invariant`.

    >>> model = create_model("spectral_vmamba_nano", num_classes=10, neighbors=None)
    >>> model.num_classes, model.config.neighbors
    (10, None)
    """
    architecture = name.split(".")[0]
    if ":" not in name and not timm.is_model(architecture):
        close = get_close_matches(architecture.lower().replace("-", "_"), timm.list_models(), n=4)
        known = f"close names: {', '.join(close)}" if close else f"this package has {', '.join(list_models())}"
        raise ValueError(f"unknown model {name!r}; {known}")
    if is_spectral(name):
        choices = {field.name for field in fields(SpectralConfig)}
        kwargs = {key: "none" if value is None and key in choices else value for key, value in kwargs.items()}
    pose = {} if find_family(name) else {key: kwargs.pop(key) for key in POSE_OPTIONS if key in kwargs}
    if pose and kwargs.get("features_only"):
        raise ValueError(
            f"expected {name} without features_only, which timm's networks do not have in a frame; use "
            "forward_intermediates of the whole network, whose maps are turned back, or a network of this package"
        )
    model = timm.create_model(name, **kwargs)
    if pose:
        model = InvariantModel(model, **{"frame": "none", **pose})
    for module in model.modules():
        if isinstance(module, PretrainedStem):
            module.require_weights()
    return model


def invariant(
    model: nn.Module | str, frame: Frame = "moment", turns: int = 4, turn_pool: TurnPool | None = None, **options: Any
) -> Any:
    """Make a network invariant to rotation: one of timm's, by name or as a module, or one of this package by name.

    `frame` is the position into which each image is turned first: "moment" (any angle, interpolated), "quarter"
    (quarter turns, exact) or "none". `turns` is the number of turned copies whose features are pooled by their mean, or
    their maximum: 1, 2 or a multiple of 4. It multiplies the work. `options` are keywords of `create_model`.

    >>> import torch
    >>> from spectral_vmamba import invariant
    >>> model = invariant("resnet18", num_classes=10).eval()
    >>> image = torch.rand(1, 3, 64, 64)
    >>> bool((model(image.rot90(1, (2, 3))) == model(image)).all())
    True
    """
    pool: dict[str, Any] = {} if turn_pool is None else {"turn_pool": turn_pool}
    if isinstance(model, str):
        return create_model(model, frame=frame, turns=turns, **pool, **options)
    if options:
        raise TypeError(f"expected options only with the name of a model, got {', '.join(options)}")
    return InvariantModel(model, frame, turns, **pool)
