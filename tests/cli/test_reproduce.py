"""`reproduce`: the smallest instance of every study, from the command line to the figure."""

import json
from pathlib import Path

import pytest

from spectral_vmamba.cli import main
from spectral_vmamba.cli.reproduce import command_line
from spectral_vmamba.studies import STUDIES, StudyOptions
from spectral_vmamba.studies.cost_study import CostStudy
from spectral_vmamba.utils.interruption import Interrupted

COMMITTED = Path(__file__).parents[2] / "benchmarks" / "results" / "studies"
RESULTS = sorted(COMMITTED.glob("*.json"))
SMALLEST = ["--train-images", "64", "--test-images", "20", "--epochs", "1", "--step", "90", "--workers", "0"]
WITHOUT_TRAINING = ("cost", "flops", "traversal")


@pytest.mark.full
@pytest.mark.parametrize("name", STUDIES)
def test_every_study(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(STUDIES, "cost", CostStudy(sides=(7, 14)))
    folder, options = tmp_path / name, [] if name in WITHOUT_TRAINING else SMALLEST
    assert main(["reproduce", name, *options, "-o", str(tmp_path)]) == 0
    assert f"wrote results.json, results.md, {name}.png and {name}.svg in {folder}" in capsys.readouterr().out
    assert {path.name for path in folder.iterdir()} == {"results.json", "results.md", f"{name}.png", f"{name}.svg"}
    assert f"`spectral-vmamba reproduce {name}" in (folder / "results.md").read_text()
    before = json.loads((folder / "results.json").read_text())["finished"]
    assert main(["reproduce", name, *options, "-o", str(tmp_path)]) == 0  # nothing is measured twice
    assert json.loads((folder / "results.json").read_text())["finished"] == before


@pytest.mark.full
@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_committed_results_can_be_redrawn(path, tmp_path, capsys):
    name = json.loads(path.read_text())["study"]
    (tmp_path / name).mkdir()
    copied = tmp_path / name / "results.json"
    copied.write_text(path.read_text())
    assert main(["reproduce", name, "--redraw", "-o", str(tmp_path)]) == 0
    assert (tmp_path / name / f"{name}.png").stat().st_size > 10_000
    assert f"`spectral-vmamba reproduce {name}" in capsys.readouterr().out.replace("\n", " ")
    assert copied.read_text() == path.read_text()
    assert not (tmp_path / "runs").exists()


def test_a_study_is_redrawn_with_the_command_that_measured_it(tmp_path, capsys):
    folder = tmp_path / "dynamics"
    folder.mkdir()
    (folder / "results.json").write_text((COMMITTED / "dynamics-cifar10.json").read_text())
    assert main(["reproduce", "dynamics", "--redraw", "-o", str(tmp_path)]) == 0
    text = (folder / "results.md").read_text()
    assert "`spectral-vmamba reproduce dynamics --scale nano --data cifar10_train.npz --val-data" in text
    assert "| Spectral VMamba | 43.5 ± 0.5 |" in text
    assert {path.name for path in folder.iterdir()} == {"results.json", "results.md", "dynamics.png", "dynamics.svg"}
    capsys.readouterr()
    assert main(["reproduce", "neighbors", "--redraw", "-o", str(tmp_path)]) == 1
    assert "there are no rows of neighbors" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--networks", "VMamba"], ["--seeds", "1"], ["--scale", "lite"], ["--dry-run"]])
def test_redraw_refuses_what_it_cannot_change(options, tmp_path, capsys):
    assert main(["reproduce", "rotation", "--redraw", *options, "-o", str(tmp_path)]) == 1
    assert f"cannot change {options[0]}; leave it out" in " ".join(capsys.readouterr().err.split())


def test_unknown_names_list_the_choices(capsys):
    assert main(["reproduce", "rotations"]) == 1
    assert "no study 'rotations'; there are rotation, eigenvectors" in capsys.readouterr().err


def test_an_interrupted_study_says_how_to_continue(tmp_path, capsys, monkeypatch):
    def stop(*_):
        raise Interrupted("stopped after step 3 of 9; resume with --resume", 130)

    monkeypatch.setattr("spectral_vmamba.studies.run_study", stop)
    assert main(["reproduce", "traversal", "-o", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "stopped; the same command continues\n"


def test_a_dry_run_trains_nothing(tmp_path, capsys):
    assert main(["reproduce", "dynamics", *SMALLEST, "-o", str(tmp_path), "--seeds", "0", "1", "--dry-run"]) == 0
    assert "Spectral VMamba, frame none, seed 1: about" in capsys.readouterr().out
    assert not (tmp_path / "runs").exists()


def test_the_command_is_stated_without_folders():
    options = StudyOptions(scale="nano", data="/home/me/cifar.npz", seeds=(0, 1), epochs=3, output="elsewhere")
    expected = "spectral-vmamba reproduce rotation --scale nano --data cifar.npz --seeds 0 1 --epochs 3"
    assert command_line("rotation", options) == expected


def test_the_command_quotes_names_of_networks():
    options = StudyOptions(networks=("Vim", "VMamba with RFN"), frames=("none", "moment"))
    expected = "spectral-vmamba reproduce rotation --networks Vim 'VMamba with RFN' --frames none moment"
    assert command_line("rotation", options) == expected


def test_chosen_networks_are_in_the_plan(tmp_path, capsys):
    names = ["--networks", "VMamba", "VMamba with RFN"]
    assert main(["reproduce", "dynamics", *SMALLEST, *names, "-o", str(tmp_path), "--dry-run"]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()[:-1]] == names[1:]
    assert main(["reproduce", "traversal", "--networks", "VMamba", "-o", str(tmp_path)]) == 1
    assert "traversal trains no network and has no option --networks; leave it out" in capsys.readouterr().err


def test_the_command_quotes_options_of_models():
    options = StudyOptions(model_options={"patch_size": 2})
    assert command_line("orders", options) == """spectral-vmamba reproduce orders --model-options '{"patch_size": 2}'"""
