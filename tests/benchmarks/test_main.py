"""The command lines: `python -m benchmarks` and the scripts."""

import runpy
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.__main__ import main, parse_settings
from benchmarks.suite.memory import REPOSITORY
from benchmarks.suite.runner import SECTIONS
from benchmarks.suite.settings import Settings


def test_defaults():
    names, settings, folder = parse_settings([])
    assert names == list(SECTIONS)
    assert settings == Settings(quick=False, threads=torch.get_num_threads(), seed=0, compile=False)
    assert folder == Path("benchmarks/results")


def test_help_explains_every_section_and_option(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    for word in (*(f"\n  {name} " for name in SECTIONS), "--only", "--quick", "--threads", "--seed", "--compile", "-o"):
        assert word in out


@pytest.mark.parametrize(
    ("arguments", "message"), [(["--only", "scans"], "scans"), (["--threads", "-1"], "expected a number of threads")]
)
def test_wrong_arguments_are_explained(arguments, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_runs_the_chosen_section(tmp_path, capsys, monkeypatch, short_timing):
    """Also without mambapy, which is then named with the command that installs it."""
    monkeypatch.setitem(sys.modules, "mambapy.pscan", None)
    monkeypatch.setenv("COLUMNS", "200")
    main(["--quick", "--only", "scan", "--threads", "1", "-o", str(tmp_path)])
    out = capsys.readouterr().out
    assert "pip install --no-deps mambapy" in out
    assert "mambapy pscan" not in out
    assert {path.name for path in tmp_path.iterdir()} == {"bench.json", "scan.png"}


@pytest.mark.parametrize("script", ["cache_speed", "retrieval", "transfer"])
def test_scripts_start(script, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [f"{script}.py", "--help"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(REPOSITORY / "benchmarks" / f"{script}.py"), run_name="__main__")
    assert stop.value.code == 0
    assert f"python benchmarks/{script}.py" in capsys.readouterr().out
