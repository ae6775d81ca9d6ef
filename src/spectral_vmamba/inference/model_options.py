"""Which models and options a checkpoint may name. A header is data: it selects an architecture, and nothing else.

Options that read files, reach a hub or hold code never pass from a header to timm, and all numbers are bounded.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from spectral_vmamba.models._builder import Family
from spectral_vmamba.models._timm import timm
from spectral_vmamba.models.network_config import option_value
from spectral_vmamba.models.recorded_options import rename_old_options
from spectral_vmamba.models.registry import find_family, is_spectral
from spectral_vmamba.utils.settings import convert_fields

# Where initial weights come from. A checkpoint has its own weights and does not repeat these options.
_WEIGHT_SOURCES = (
    "pretrained",
    "pretrained_cfg",
    "pretrained_cfg_overlay",
    "checkpoint_path",
    "cache_dir",
    "stem_weights",
)
# Keywords of timm's builder that are not choices of an architecture, and those that the classes determine.
_RESERVED = (
    *_WEIGHT_SOURCES,
    "num_classes",
    "features_only",
    "feature_cfg",
    "out_indices",
    "scriptable",
    "exportable",
    "no_jit",
)
_RESERVED_PREFIXES = ("pretrained", "model_", "kwargs_", "hf_", "hub_")
# timm's keywords of every network of this package, besides the fields of its configuration.
_COMMON_OPTIONS: dict[str, type | tuple[type, ...]] = {
    "in_chans": int,
    "img_size": (int, tuple),
    "global_pool": str,
    "drop_rate": (int, float),
    "drop_path_rate": (int, float),
}

_MAX_NUMBER = 2**14  # widths, image sizes, numbers of neighbors
_MAX_VALUES = 2**12  # in one option: directions of every layer, for example
_MODEL_NAME = re.compile(r"\w+(\.\w+)?", re.ASCII)
_WORD = re.compile(r"[\w.,+-]{0,100}", re.ASCII)  # no separators of paths and URLs
_LONG_NUMBER = re.compile(r"\d{4}")


def storable_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a model without those that say where its initial weights come from."""
    return {name: value for name, value in options.items() if name not in _WEIGHT_SOURCES}


def without_initial_weights(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that build a model whose weights are loaded afterwards, also those of a pretrained stem."""
    remaining = storable_options(options)
    return {**remaining, "stem_weights": "none"} if is_spectral(name) else remaining


def check_model(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a header, with lists as tuples. Raises a ValueError that names what is not allowed."""
    if not _MODEL_NAME.fullmatch(name) or not timm.is_model(name.split(".")[0]):
        raise ValueError(f"expected the name of a registered model, got {name[:60]!r}")
    options = {key: _to_tuples(value) for key, value in rename_old_options(options).items()}
    for key, value in options.items():
        if not key.isidentifier() or key in _RESERVED or key.startswith(_RESERVED_PREFIXES):
            raise ValueError(f"the model option {key[:60]!r} is not allowed in a checkpoint")
        check_values(key, value)
    family = find_family(name)
    if family is not None:
        _check_own_options(family, options)
    return options


def check_depth(options: Mapping[str, Any], tensors: int) -> None:
    """Compare the number of layers with the number of tensors of a file: every layer has at least one."""
    for key, value in options.items():
        layers = sum(part for part in _leaves(value) if isinstance(part, (int, float)))
        if ("depth" in key or "layers" in key) and layers > tensors:
            raise ValueError(f"the model option {key} asks for {layers:,} layers; the file has {tensors:,} tensors")


def check_values(key: str, value: Any) -> None:
    """Only words, bounded finite numbers, truth values and None, or tuples and lists of them. Raises a ValueError."""
    values = list(_leaves(_to_tuples(value)))
    if len(values) > _MAX_VALUES:
        raise ValueError(f"the model option {key} has {len(values):,} values; expected at most {_MAX_VALUES:,}")
    for part in values:
        if isinstance(part, str):
            word = part.removeprefix("timm:") if key == "stem" else part
            if not _WORD.fullmatch(word):
                raise ValueError(f"expected a plain word for the model option {key}, got {part[:60]!r}")
        elif isinstance(part, (int, float)):
            limit = 2**63 if key == "seed" else _MAX_NUMBER
            if not -limit <= part <= limit:  # also NaN
                raise ValueError(f"expected numbers of at most {limit:,} for the model option {key}, got {part:.3g}")
        elif part is not None:
            raise ValueError(f"the model option {key} has a value of the type {type(part).__name__}: not allowed")


def _check_own_options(family: Family, options: Mapping[str, Any]) -> None:
    """Check names and types against the configuration of a network of this package."""
    config_class = family.network.config_class
    own = {field.name for field in fields(config_class)}
    unknown = [key for key in options if key not in own and key not in _COMMON_OPTIONS]
    if unknown:
        known = ", ".join(sorted({*own, *_COMMON_OPTIONS} - {*_RESERVED}))
        raise ValueError(f"{family.title} has no option {unknown[0][:60]!r}; it has {known}")
    for key, value in options.items():
        if key not in own and (isinstance(value, bool) or not isinstance(value, _COMMON_OPTIONS[key])):
            raise ValueError(f"the model option {key} has a value of another type: {str(value)[:60]!r}")
        if any(isinstance(part, (int, float)) and part < 0 for part in _leaves(value)):
            raise ValueError(f"expected no negative number for the model option {key}, got {str(value)[:60]}")
        if key != "stem" and any(isinstance(part, str) and _LONG_NUMBER.search(part) for part in _leaves(value)):
            raise ValueError(f"expected numbers below 1,000 in the model option {key}, got {str(value)[:60]}")
    try:
        convert_fields(config_class, {key: option_value(key, value) for key, value in options.items() if key in own})
    except TypeError as error:
        raise ValueError(f"a model option is wrong: {error}") from error
    stem = options.get("stem", "conv")
    name = stem.removeprefix("timm:")
    if stem != "conv" and (name == stem or not _MODEL_NAME.fullmatch(name) or not timm.is_model(name)):
        raise ValueError(f"expected a stem 'conv' or 'timm:NAME' of a model of timm, got {stem!r}")


def _to_tuples(value: Any) -> Any:
    return tuple(map(_to_tuples, value)) if isinstance(value, list) else value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value
