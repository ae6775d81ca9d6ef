"""Frozen dataclasses of settings as plain dictionaries, and back: for JSON, YAML and checkpoint headers."""

import json
from dataclasses import asdict, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

Settings = TypeVar("Settings")


def nested_settings(kind: type) -> dict[str, type]:
    """The fields of a settings class that are settings classes themselves."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if is_dataclass(hints[field.name])}


def to_json_dict(settings: Any) -> dict[str, Any]:
    """The fields as JSON stores them: nested settings as dictionaries, tuples as lists."""
    return json.loads(json.dumps(asdict(settings)))


def from_dict(kind: type[Settings], stored: dict[str, Any]) -> Settings:
    """The inverse of `dataclasses.asdict` and of `to_json_dict`; lists become tuples, except inside dictionaries.

    Raises TypeError for missing and unknown fields, and for nested settings that are not dictionaries.
    """
    nested = nested_settings(kind)
    values: dict[str, Any] = {}
    for name, value in stored.items():
        if name in nested and isinstance(value, dict):
            values[name] = from_dict(nested[name], value)
        elif name in nested and not isinstance(value, nested[name]):
            raise TypeError(f"expected a dictionary for {name}, got {value!r}")
        else:
            values[name] = _to_tuples(value)
    return kind(**values)


def flatten(settings: Any) -> dict[str, Any]:
    """JSON values by dotted names, as on the command line: {"epochs": 30, "augment.rotate": 45}."""
    stored = to_json_dict(settings)
    nested = nested_settings(type(settings))
    flat = {name: value for name, value in stored.items() if name not in nested}
    return flat | {f"{group}.{name}": value for group in nested for name, value in stored[group].items()}


def _to_tuples(value: Any) -> Any:
    return tuple(map(_to_tuples, value)) if isinstance(value, list) else value
