"""The command line as a whole: help, examples, errors, missing packages."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from spectral_vmamba.cli import main
from spectral_vmamba.cli.dispatch import COMMANDS, build_parser
from spectral_vmamba.data.readers.folder_listing import SkippedFilesWarning
from tests.support.commands import example_arguments

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def help_text(capsys, *command: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    return capsys.readouterr().out


def test_the_help_lists_every_command_with_its_summary(capsys):
    text = help_text(capsys)
    for name, module in COMMANDS.items():
        assert f"{name} " in text
        assert (module.__doc__ or "").splitlines()[0] in " ".join(text.split())
    assert len(example_arguments(text)) >= 3


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command, capsys):
    """Usage, what it does, and at least one example of this command."""
    text = help_text(capsys, command)
    assert text.startswith("usage: spectral-vmamba")
    assert COMMANDS[command].__doc__ in text
    assert "Example" in text
    assert any(arguments[0] == command for arguments in example_arguments(text))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_help_text(command):
    actions = [action for action in COMMANDS[command].parser()._actions if action.option_strings != ["-h", "--help"]]
    without = [action.dest for action in actions if not (action.help or "").split("(")[0].strip()]
    assert not without


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_examples_in_the_help_parse(command):
    parser = build_parser() if command is None else COMMANDS[command].parser()
    for arguments in example_arguments(parser.description or ""):
        build_parser().parse_args(arguments)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_examples_in_the_documents_parse(document):
    for arguments in example_arguments(document.read_text()):
        if "--help" not in arguments:
            build_parser().parse_args(arguments)


def test_every_command_is_in_the_readme():
    examples = {arguments[0] for arguments in example_arguments((ROOT / "README.md").read_text())}
    assert examples - {"--help"} <= COMMANDS.keys()
    assert examples >= {"train", "evaluate", "certify", "predict", "embed", "search", "info", "models", "traversal"}


def test_an_unknown_command_exits_with_two(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["transmogrify"])
    assert stop.value.code == 2


def test_an_interruption_exits_with_130(capsys, monkeypatch):
    def interrupt(config):
        raise KeyboardInterrupt

    monkeypatch.setattr("spectral_vmamba.cli.info.run", interrupt)
    assert main(["info"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_warnings_are_printed_once_on_one_line(capsys, monkeypatch):
    def warn(config):
        for _ in range(2):
            warnings.warn("2 files\nskipped", SkippedFilesWarning, stacklevel=1)
        return 0

    monkeypatch.setattr("spectral_vmamba.cli.info.run", warn)
    assert main(["info"]) == 0
    assert capsys.readouterr().err == "warning: 2 files skipped\n"


_MISSING_PACKAGES = """
import json, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from spectral_vmamba.cli import main

def run(missing, *arguments):
    sys.modules.update(dict.fromkeys(missing))  # importing them now fails
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    for name in missing:
        del sys.modules[name]
    return code, out.getvalue(), err.getvalue()

results = {name: run([name], "info") for name in ("jsonargparse", "docstring_parser", "yaml", "rich")}
extras = ["matplotlib", "accelerate", "torchmetrics", "tensorboard", "sklearn", "skimage", "pyarrow", "ray"]
results["info"] = run(extras, "info")
results["traversal"] = run(["matplotlib"], "traversal", "absent.png")
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results_without_packages() -> dict[str, list]:
    """Exit code, output and errors of commands in a fresh process in which packages are missing."""
    command = [sys.executable, "-c", _MISSING_PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("package", ["jsonargparse", "docstring_parser", "yaml", "rich"])
def test_a_missing_package_of_the_command_line_is_one_clear_line(results_without_packages, package):
    code, out, err = results_without_packages[package]
    assert (code, out) == (1, "")
    assert err == f"error: this needs {package}: pip install 'spectral-vmamba[cli]'\n"


def test_the_extra_cli_is_enough_for_info_and_help(results_without_packages):
    """All commands are imported, and none of them imports a package of another extra before it runs."""
    code, out, err = results_without_packages["info"]
    assert (code, err) == (0, "")
    assert out.startswith("spectral-vmamba ")


def test_a_missing_matplotlib_is_named_before_the_work(results_without_packages):
    """The image does not exist either: the missing package is reported first."""
    code, _, err = results_without_packages["traversal"]
    assert (code, err) == (1, "error: this needs matplotlib: pip install 'spectral-vmamba[plots]'\n")
