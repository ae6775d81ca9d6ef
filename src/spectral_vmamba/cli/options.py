"""The parser of the commands: options derived from settings classes, and recipes."""

from argparse import RawDescriptionHelpFormatter
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, NoReturn, TypeVar

from jsonargparse import (
    ActionConfigFile,  # pyright: ignore[reportPrivateImportUsage]
    ActionYesNo,  # pyright: ignore[reportPrivateImportUsage]
    ArgumentParser,
    DefaultHelpFormatter,
    Namespace,
    set_parsing_settings,
)

from spectral_vmamba.cli.usage_errors import explain_usage_error
from spectral_vmamba.training.recipes import RecipeKind, find_recipe
from spectral_vmamba.utils.devices import Device
from spectral_vmamba.utils.settings import from_dict

Settings = TypeVar("Settings")


class _HelpFormatter(RawDescriptionHelpFormatter, DefaultHelpFormatter):
    """Keeps the line breaks of descriptions, so that examples stay on lines of their own."""


_DEVICE_HELP = "device to run on; auto is a GPU if torch can use one, else the CPU"


class CommandParser(ArgumentParser):
    """A parser with `--dashed-names`, flags that need no value (`--cache`, `--no-cache`) and no abbreviations.

    jsonargparse derives options from a class, but with underscores and with booleans that need a value; the override of
    `add_argument` adds these two habits, and `--device` with the same values everywhere. jsonargparse applies the
    override to argument groups as well.
    """

    def __init__(self, **kwargs: Any):
        super().__init__(formatter_class=_HelpFormatter, allow_abbrev=False, print_config="--print-config", **kwargs)

    def add_argument(self, *names: str, **kwargs: Any):  # pyright: ignore[reportIncompatibleMethodOverride]
        names = tuple(name.replace("_", "-") if name.startswith("--") else name for name in names)
        if names == ("--output",):
            names = ("-o", *names)
        if names == ("--device",) and "action" not in kwargs:  # those of settings classes are already typed
            kwargs = {"type": Device, "default": "auto", "help": _DEVICE_HELP}
        if kwargs.get("type") is bool:
            del kwargs["type"]
            # An optional value would consume a positional argument that follows the flag.
            takes_value = all(action.option_strings for action in self._actions)
            kwargs |= {"action": ActionYesNo(no_prefix="no-"), "nargs": "?" if takes_value else 0}
        return super().add_argument(*names, **kwargs)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        parser, text = explain_usage_error(getattr(ex, "subcommand_parser", None) or self, message)
        if isinstance(parser, CommandParser) and parser is not self:
            parser.error(text)
        super().error(text)


def add_commands(parser: CommandParser, modules: Mapping[str, Any]) -> None:
    """Add a subcommand for each module, and those that its `COMMANDS` lists. The first line of its docstring is the
    help text."""
    subcommands = parser.add_subcommands(required=True, metavar="COMMAND")
    for name, module in modules.items():
        command = module.parser()
        subcommands.add_subcommand(name, command, help=(module.__doc__ or name).splitlines()[0])
        command.prog = f"{parser.prog} {name}"
        if hasattr(module, "COMMANDS"):  # jsonargparse wants them added from the top down
            add_commands(command, module.COMMANDS)


def add_settings(parser: CommandParser, kind: type, skip: tuple[str, ...] = ()) -> None:
    """Add one option per field of a settings class. The string below a field is its help text."""
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser.add_class_arguments(kind, skip=set(skip))


def parse_settings(kind: type[Settings], config: Namespace) -> Settings:
    """Build the settings from parsed options."""
    values = config.as_dict()
    return from_dict(kind, {field.name: values[field.name] for field in fields(kind)})  # pyright: ignore[reportArgumentType]


def add_evaluation_data(parser: CommandParser, kind: str) -> None:
    """Add the options that choose the images of an evaluation."""
    parser.add_argument(
        "--data", type=str | None, default=None, help=f"{kind}; defaults to the held-out images of the run"
    )
    parser.add_argument(
        "--split",
        type=Literal["val", "test"] | None,
        default=None,
        help="validation or test images; defaults to test if there are any",
    )


class RecipeFile(ActionConfigFile):
    """An option that reads settings from a YAML file, or from a recipe of the package by its name."""

    recipe_kind: RecipeKind = "classification"

    def __call__(self, parser, cfg, values, option_string=None):  # pyright: ignore
        try:
            path = find_recipe(str(values), self.recipe_kind)
        except ValueError as error:
            parser.error(str(error))
        return super().__call__(parser, cfg, str(path), option_string)


class SegmentationRecipeFile(RecipeFile):
    """The same for recipes of segmentation networks."""

    recipe_kind = "segmentation"
