"""`spectral-vmamba evaluate`."""

import json

from spectral_vmamba.cli import main


def test_tables_numbers_and_a_report(run_folder, digit_folders, tmp_path, capsys):
    options = ["--data", str(digit_folders), "--rotations", "90", "--fill", "black", "disk", "-o", str(tmp_path)]
    assert main(["evaluate", str(run_folder), "--weights", "all", *options]) == 0
    out = capsys.readouterr().out
    for fact in ("top-1", "calibration error", "averaged", "raw", "disk", "0/0/0", "Mean confidence"):
        assert fact in out
    assert "These images selected the best epoch; use --test-fraction when training for an untouched test set." in out
    assert f"wrote {tmp_path / 'report.html'}, evaluation.json, images.csv, classes.csv, angles.csv" in out
    averaged, raw = json.loads((tmp_path / "evaluation.json").read_text())
    assert averaged["scores"]["images"] == 40, "of the training data, only the validation images are evaluated"
    assert [sweep["fill"] for sweep in averaged["sweeps"]] == ["black", "disk"]
    assert averaged["sweeps"][0]["points"][1]["angle"] == 90
    assert averaged["name"] != raw["name"]
    page = (tmp_path / "report.html").read_text()
    command = f"evaluate {run_folder} --data {digit_folders} --weights all --rotations 90 --fill black disk --output"
    assert f"<pre>spectral-vmamba {command} {tmp_path}</pre>" in page
    assert averaged["mistakes"][0]["name"] in page


def test_a_run_is_evaluated_from_another_folder(run_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", str(run_folder), "--no-cache", "--split", "val"]) == 0
    out = capsys.readouterr().out
    assert "evaluated on validation images (these images selected the best epoch) of " in out
    assert "best weights (spectral_vmamba_nano)" in out


def test_unreadable_images_are_skipped_and_named(run_folder, digit_folders, tmp_path, capsys):
    for name in ("digit 0", "digit 1"):
        (tmp_path / name).mkdir()
        source = next((digit_folders / name).iterdir())
        (tmp_path / name / "good.png").write_bytes(source.read_bytes())
    (tmp_path / "digit 1" / "bad.png").write_bytes(b"not an image")
    assert main(["evaluate", str(run_folder), "--weights", "best", "--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "1 unreadable image was skipped" in out
    assert "bad.png" in out


def test_weights_that_do_not_fit_a_model_are_named(run_folder, digit_folders, capsys):
    options = ["--model", "resnet10t", "--data", str(digit_folders), "--checkpoint"]
    assert main(["evaluate", *options, str(run_folder / "best.safetensors")]) == 1
    assert "omit --model" in capsys.readouterr().err
    assert main(["evaluate", *options, "none.safetensors"]) == 1
    assert "no weights at none.safetensors" in capsys.readouterr().err


def test_a_run_or_a_model_is_required(capsys):
    assert main(["evaluate"]) == 1
    assert "expected at least one run" in capsys.readouterr().err
    assert main(["evaluate", "--model", "resnet10t"]) == 1
    assert "--model requires --data" in capsys.readouterr().err
