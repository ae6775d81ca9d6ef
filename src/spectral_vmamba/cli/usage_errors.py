"""Explain a wrong command line: which option, what was expected, what came, and what was probably meant."""

import re
from argparse import Action, ArgumentParser
from collections.abc import Callable, Iterable
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from spectral_vmamba.utils.wording import closest

_TYPES = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "names and values, as in '{domain: disk}'",
}


def explain_usage_error(parser: ArgumentParser, message: str) -> tuple[ArgumentParser, str]:
    """Return the parser of the command that the message of argparse or jsonargparse is about, and a plain message."""
    for pattern, explain in _EXPLANATIONS.items():
        if match := re.search(pattern, message, re.DOTALL):
            return explain(parser, *match.groups())
    return parser, message


def _explain_required(parser: ArgumentParser, keys: str) -> tuple[ArgumentParser, str]:
    parser, names = _find_command(parser, keys.split(", "))
    arguments = " and ".join(_option_name(parser, name) for name in names)
    command = parser.prog.partition(" ")[2]
    return parser, f"{command} requires {arguments}, as in: {_first_example(parser)}"


def _explain_unrecognized(parser: ArgumentParser, words: str) -> tuple[ArgumentParser, str]:
    word = next((word for word in words.split() if word.startswith("-")), "")
    if not word:
        return parser, f"unexpected argument: {words}"
    name = word.partition("=")[0]
    options = [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
    return parser, f"unknown option {name}{_suggest_setting(name.lstrip('-'), [o[2:] for o in options], '--')}"


def _explain_setting(parser: ArgumentParser, name: str) -> tuple[ArgumentParser, str]:
    names = [action.dest for action in parser._actions]
    return parser, f"unknown setting {name!r} in the recipe{_suggest_setting(name, names)}"


def _explain_value(parser: ArgumentParser, key: str, element: str, details: str) -> tuple[ArgumentParser, str]:
    parser, (key,) = _find_command(parser, [key])
    hint = getattr(_find_action(parser, key), "_typehint", None)
    value = re.search(r"(?:Got value|Given value): (.*)\Z", details, re.DOTALL)
    if hint is None or value is None:
        return parser, f"{_option_name(parser, key)}{element}: {' '.join(details.split())}"
    return parser, f"{_option_name(parser, key)}: expected {_describe_type(hint)}, got {value[1].strip()!r}"


def _explain_choice(parser: ArgumentParser, name: str, value: str, choices: str) -> tuple[ArgumentParser, str]:
    known = re.findall(r"'([^']*)'", choices)
    kind = "unknown command" if name == "COMMAND" else f"{name}: expected {_join(known)}, got"
    rest = f"; the commands are {_join(known, 'and')}" if name == "COMMAND" else ""
    return parser, f"{kind} {value!r}{_suggest(value, known) or rest}"


def _explain_boolean(parser: ArgumentParser, name: str, value: str) -> tuple[ArgumentParser, str]:
    return parser, f"{name.partition('/')[0]}: expected true or false, got {value!r}"


def _explain_missing_value(parser: ArgumentParser, name: str) -> tuple[ArgumentParser, str]:
    return parser, f"{name.rpartition('/')[2]}: expected a value"


def _explain_missing_command(parser: ArgumentParser, key: str) -> tuple[ArgumentParser, str]:
    parser, _ = _find_command(parser, [key])
    return parser, f"expected a command: {_join(_commands(parser))}"


_EXPLANATIONS: dict[str, Callable[..., tuple[ArgumentParser, str]]] = {
    r"the following arguments are required: (.+)": _explain_required,
    r"unrecognized arguments: (.+)": _explain_unrecognized,
    r"does not accept option '(.+)'": _explain_setting,
    r'^Parser key "([^"]+)"( element \d+)?:\s(.+)': _explain_value,
    r"^argument (\S+): invalid choice: '(.*?)' \(choose from (.+)\)": _explain_choice,
    r"^argument (\S+): invalid _boolean_type value: '(.*)'": _explain_boolean,
    r"^argument (\S+): expected (?:one|at least one) argument": _explain_missing_value,
    r'^expected "((?:\w+\.)*)subcommand" to be one of': _explain_missing_command,
}


def _commands(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    return next((action._name_parser_map for action in parser._actions if hasattr(action, "_name_parser_map")), {})  # pyright: ignore


def _find_command(parser: ArgumentParser, keys: list[str]) -> tuple[ArgumentParser, list[str]]:
    """The parser of the command that keys such as certify.checkpoint begin with, and the keys without it."""
    command, commands = keys[0].partition(".")[0], _commands(parser)
    if command not in commands:
        return parser, keys
    return _find_command(commands[command], [key.removeprefix(f"{command}.") for key in keys])


def _find_action(parser: ArgumentParser, key: str) -> Action | None:
    return next((action for action in parser._actions if action.dest == key), None)


def _option_name(parser: ArgumentParser, key: str) -> str:
    """As it is typed: --batch-size for an option, CHECKPOINT for a positional argument."""
    action = _find_action(parser, key)
    if action is None:
        return key
    return action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest).upper()


def _first_example(parser: ArgumentParser) -> str:
    example = re.search(r"^\s+(spectral-vmamba .+)$", parser.description or "", re.MULTILINE)
    return example[1] if example else f"{parser.prog} --help"


def _describe_type(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return _join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return _join(_describe_type(part) for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is tuple:
        return f"a list of {len(get_args(hint))} values, as in '[0.5, 1]'"
    return _TYPES.get(get_origin(hint) or hint, str(hint))


def _suggest(word: str, known: Iterable[str], prefix: str = "") -> str:
    match = closest(word, known)
    return f"; did you mean {prefix}{match}?" if match else ""


def _suggest_setting(name: str, known: list[str], prefix: str = "") -> str:
    """`lr` is `optimizer.lr`: the group of a setting is easily forgotten."""
    nested = next((option for option in known if option.rpartition(".")[2] == name), None)
    return f"; did you mean {prefix}{nested}?" if nested else _suggest(name, known, prefix)


def _join(words: Iterable[str], last: str = "or") -> str:
    words = list(words)
    return " ".join(filter(None, [", ".join(words[:-1]), last if words[1:] else "", *words[-1:]]))
