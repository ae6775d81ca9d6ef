"""The options of an architecture inside timm's pretrained configuration.

timm's `save_for_hf` writes `model.pretrained_cfg`, but not the options that the model was built with. Options that do
not change the shape of any tensor, such as `turns` and `domain`, would silently come back as defaults. So every
model of this package has them in its `pretrained_cfg`, and `Family.build` applies them when it is given one.
"""

import warnings
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from spectral_vmamba.models.network_config import NetworkConfig

CFG_KEY = "model_args"  # the name that timm has for options at the top of a config.json
_OF_THE_MACHINE = ("backend", "stem_weights")  # what is installed here, and nothing that a network computes
# Recorded, but other values are no mistake.
_OF_THE_USE = ("solver", "img_size", "pyramid", "finest_stride", "output_stride")


def rename_old_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options under their names of today.

    Earlier development versions had `canonical_frame`, True or False, and `rotations`, where None meant 1 turn.
    """
    renamed = dict(options)
    if "rotations" in renamed:
        rotations = renamed.pop("rotations")
        renamed.setdefault("turns", 1 if rotations in (None, "none") else rotations)
    if isinstance(canonical := renamed.pop("canonical_frame", None), bool):
        renamed.setdefault("frame", "quarter" if canonical else "none")
    elif canonical is not None:
        renamed["canonical_frame"] = canonical
    return renamed


def record_options(config: NetworkConfig) -> dict[str, Any]:
    """Return the options of a network as values that JSON can hold. Functions are recorded by their names."""
    names = (field.name for field in fields(config))
    return {name: _to_json(getattr(config, name)) for name in names if name not in _OF_THE_MACHINE}


def read_options(pretrained_cfg: Any, config_class: type[NetworkConfig]) -> tuple[Any, dict[str, Any]]:
    """Split a pretrained configuration into what timm knows and the recorded options.

    Raises a ValueError that names options that networks of `config_class` do not have.
    """
    if not isinstance(pretrained_cfg, dict) or CFG_KEY not in pretrained_cfg:
        return pretrained_cfg, {}
    remaining = {key: value for key, value in pretrained_cfg.items() if key != CFG_KEY}
    recorded = pretrained_cfg[CFG_KEY]
    if isinstance(recorded, Mapping):
        recorded = rename_old_options(recorded)
    known = {field.name for field in fields(config_class)} - set(_OF_THE_MACHINE)
    if not isinstance(recorded, Mapping) or not recorded.keys() <= known:
        unknown = sorted(set(recorded) - known) if isinstance(recorded, Mapping) else recorded
        raise ValueError(
            f"the pretrained configuration records options that {config_class.__name__} does not have: {unknown}"
        )
    return remaining, dict(recorded)


def warn_of_unknown_options(name: str, pretrained_cfg: Any, keywords: Mapping[str, Any], config: NetworkConfig) -> None:
    """Warn if weights come from a folder or the hub, and neither the folder nor the caller states any option."""
    comes_from_a_folder = isinstance(pretrained_cfg, dict) and pretrained_cfg.get("source") in ("local-dir", "hf-hub")
    stated = keywords.keys() & {field.name for field in fields(config)} - set(_OF_THE_MACHINE)
    if comes_from_a_folder and not stated:
        warnings.warn(
            f"the folder of these weights does not record the options of {name}, so the network has the default ones; "
            f"pass the options that it was trained with, and save it with spectral_vmamba.save_for_hub",
            UserWarning,
            stacklevel=2,
        )


def warn_of_other_options(name: str, recorded: Mapping[str, Any], config: NetworkConfig) -> None:
    """Warn if the network that loads pretrained weights has other options than the recorded ones."""
    chosen = record_options(config)
    differences = [
        f"{option}={chosen[option]!r} (saved with {value!r})"
        for option, value in recorded.items()
        if option not in _OF_THE_USE and _to_json(value) != chosen[option]
    ]
    if differences:
        warnings.warn(
            f"the weights of {name} were saved from a network with other options: {', '.join(differences)}. "
            f"Omit these options to restore the saved network.",
            UserWarning,
            stacklevel=2,
        )


def _to_json(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_to_json(part) for part in value]
    if callable(value):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return "none" if value is None else value  # timm drops keywords that are None
