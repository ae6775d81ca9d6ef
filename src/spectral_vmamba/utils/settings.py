"""Frozen dataclasses of settings as plain dictionaries, and back: for JSON, YAML and checkpoint headers."""

import json
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Settings = TypeVar("Settings")
_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", NoneType: "none"}


def nested_settings(kind: type) -> dict[str, type]:
    """The fields of a settings class that are settings classes themselves."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if is_dataclass(hints[field.name])}


def to_json_dict(settings: Any) -> dict[str, Any]:
    """The fields as JSON stores them: nested settings as dictionaries, tuples as lists."""
    return json.loads(json.dumps(asdict(settings)))


def from_dict(kind: type[Settings], stored: dict[str, Any]) -> Settings:
    """The inverse of `dataclasses.asdict` and of `to_json_dict`; lists become tuples, except inside dictionaries.

    Raises TypeError for missing and unknown fields, and for values of other types than the fields have.
    """
    return kind(**convert_fields(kind, stored))


def convert_fields(kind: type, stored: dict[str, Any]) -> dict[str, Any]:
    """Some fields of a settings class, with lists as tuples and dictionaries as nested settings.

    Raises TypeError for unknown fields, which it names, and for values of other types.
    """
    hints = get_type_hints(kind)
    known = {field.name for field in fields(kind)}
    unknown = [name for name in stored if name not in known]
    if unknown:
        raise TypeError(
            f"unknown fields {', '.join(repr(name[:60]) for name in unknown[:5])}; there are {', '.join(sorted(known))}"
        )
    return {name: _convert(value, hints[name], name) for name, value in stored.items()}


def flatten(settings: Any) -> dict[str, Any]:
    """JSON values by dotted names, as on the command line: {"epochs": 30, "augment.rotate": 45}."""
    stored = to_json_dict(settings)
    nested = nested_settings(type(settings))
    flat = {name: value for name, value in stored.items() if name not in nested}
    return flat | {f"{group}.{name}": value for group in nested for name, value in stored[group].items()}


def _convert(value: Any, hint: Any, name: str) -> Any:
    """The value as its field's type describes it, or a TypeError."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return _to_tuples(value)
    if origin in (Union, UnionType):
        return _convert_to_any(value, arguments, name)
    if origin is tuple and isinstance(value, (list, tuple)):
        repeated = len(arguments) == 2 and arguments[1] is Ellipsis
        kinds = arguments[:1] * len(value) if repeated else arguments
        if len(kinds) == len(value):
            return tuple(_convert(part, part_kind, name) for part, part_kind in zip(value, kinds, strict=True))
    elif is_dataclass(hint) and isinstance(hint, type):
        if isinstance(value, dict):
            return from_dict(hint, value)
        if isinstance(value, hint):
            return value
        raise TypeError(f"expected a dictionary for {name}, got {_shorten(value)}")
    elif origin is dict and isinstance(value, dict):
        for key, part in value.items():
            _convert(key, arguments[0], f"a key of {name}")
            _convert(part, arguments[1], f"{name}[{_shorten(key)}]")
        return value
    elif _is_plain(value, hint, origin, arguments):
        return value
    raise TypeError(f"expected {_describe(hint)} for {name}, got {_shorten(value)}")


def _convert_to_any(value: Any, kinds: tuple[Any, ...], name: str) -> Any:
    errors = []
    for kind in kinds:
        try:
            return _convert(value, kind, name)
        except TypeError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    expected = " or ".join(_describe(kind) for kind in kinds)
    raise TypeError(f"expected {expected} for {name}, got {_shorten(value)}")


def _is_plain(value: Any, hint: Any, origin: Any, arguments: tuple[Any, ...]) -> bool:
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in arguments)
    if origin is Callable:
        return callable(value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(hint, type) and isinstance(value, hint)


def _describe(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    return _NAMES.get(hint, str(hint))


def _shorten(value: Any, limit: int = 60) -> str:
    text = repr(value[:limit] if isinstance(value, (str, list, tuple)) else value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _to_tuples(value: Any) -> Any:
    return tuple(map(_to_tuples, value)) if isinstance(value, list) else value
