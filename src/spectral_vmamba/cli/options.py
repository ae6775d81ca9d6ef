"""Options of a command from the fields of a settings class, and its recipes."""

import inspect
from argparse import RawDescriptionHelpFormatter
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from docstring_parser import parse_from_object
from jsonargparse import (
    ActionConfigFile,  # pyright: ignore[reportPrivateImportUsage]
    ActionYesNo,  # pyright: ignore[reportPrivateImportUsage]
    ArgumentParser,
    DefaultHelpFormatter,
    Namespace,
)

from spectral_vmamba.training.recipes import recipes


class Teaching(RawDescriptionHelpFormatter, DefaultHelpFormatter):
    """Descriptions as they are written, with their examples on lines of their own."""


def add_fields(parser: ArgumentParser, kind: type, prefix: str = "") -> None:
    """One option a field, with the text below the field as its help; fields that are settings make groups."""
    texts = {param.arg_name: param.description or "" for param in parse_from_object(kind).params}
    group: Any = parser.add_argument_group(inspect.getdoc(kind)) if prefix else parser
    nested = []
    for field in fields(kind):
        if is_dataclass(field.type):
            nested.append(field)
            continue
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        name = f"--{prefix}{field.name}".replace("_", "-")
        text = " ".join(texts.get(field.name, "").split()) or field.name.replace("_", " ")
        if field.type is bool:
            group.add_argument(name, action=ActionYesNo(no_prefix="no-"), nargs="?", default=default, help=text)
        else:
            group.add_argument(name, type=field.type, default=default, help=text)
    for field in nested:
        add_fields(parser, field.type, prefix=f"{field.name}.")  # pyright: ignore[reportArgumentType]


def settings_from(kind: type, config: Namespace) -> Any:
    """The settings that the options were parsed to."""
    values = {}
    for field in fields(kind):
        value = config[field.name]
        if is_dataclass(field.type):
            value = settings_from(field.type, value)  # pyright: ignore[reportArgumentType]
        elif isinstance(value, Namespace):
            value = value.as_dict()
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


class RecipeFile(ActionConfigFile):
    """A YAML file of settings, or the name of one that comes with the package."""

    def __call__(self, parser, cfg, values, option_string=None):  # pyright: ignore
        known = recipes()
        if str(values) in known:
            values = str(known[str(values)])
        elif not Path(str(values)).is_file():
            parser.error(f"no recipe {values!r}: neither a file nor one of {', '.join(known)}")
        return super().__call__(parser, cfg, values, option_string)
