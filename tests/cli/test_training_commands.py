"""From a person's own folder to predictions, by the commands."""

import csv
import io
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.cli import main
from spectral_vmamba.cli.train import parser as train_parser
from spectral_vmamba.data.readers.digits import digits
from spectral_vmamba.training.recipes import recipe, recipes
from spectral_vmamba.training.train_config import TrainConfig
from tests.support.disks import fill, small_disk

SMALL = ["--model-options", '{"widths": [8, 16], "depths": [1, 1]}', "--tracker", "none", "--device", "cpu"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """200 digits as PNG files, one folder a class."""
    root = tmp_path_factory.mktemp("photos")
    images = digits()
    for i in range(200):
        path = root / f"digit {images.classes[images.labels[i]]}" / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        images.opener(i).save(path)
    return root


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    output = tmp_path_factory.mktemp("runs") / "photos"
    arguments = [
        "--recipe",
        "laptop",
        "--data",
        str(folder),
        "--output",
        str(output),
        "--epochs",
        "2",
        "--workers",
        "0",
    ]
    assert main(["train", *arguments, *SMALL]) == 0
    return output


def test_the_recipes_say_what_they_are_for():
    assert set(recipes()) == {"paper", "laptop", "digits", "lite"}
    paper = recipe("paper")
    assert (paper.augment, paper.optimizer) == (TrainConfig().augment, TrainConfig().optimizer)
    assert (paper.epochs, paper.batch_size, paper.ema) == (300, 128, 0.9999)


def test_options_override_recipes(run):
    import yaml

    stored = yaml.safe_load((run / "config.yaml").read_text())
    assert stored["epochs"] == 2
    assert stored["augment"]["turn"] == 45
    assert stored["optimizer"]["warmup_epochs"] == 2


def test_train_says_how_to_go_on(folder, tmp_path, capsys):
    output = str(tmp_path / "run")
    arguments = ["train", "--recipe", "laptop", "--data", str(folder), "--output", output, "--epochs", "1", *SMALL]
    assert main([*arguments, "--workers", "0"]) == 0
    out = capsys.readouterr().out
    for fact in ("160 images of 10 classes", "img/s", "waiting for images", f"evaluate {output} --rotations 15"):
        assert fact in out
    assert main(arguments) == 1
    assert "already holds a run" in capsys.readouterr().err
    assert main([*arguments, "--resume"]) == 0


def test_evaluate_writes_numbers_and_a_image(run, folder, tmp_path, capsys):
    where = ["--data", str(folder), "--rotations", "90", "--fill", "black", "disk", "-o", str(tmp_path)]
    assert main(["evaluate", str(run), *where]) == 0
    out = capsys.readouterr().out
    for fact in ("top-1", "calibration error", "averaged", "raw", "disk", "0/0/0"):
        assert fact in out
    numbers = json.loads((tmp_path / "evaluation.json").read_text())
    assert numbers[0]["scores"]["images"] == 40, "of the data a run learned from, only what it validated on"
    assert len(numbers[0]["sweeps"]) == 2
    assert Image.open(tmp_path / "rotations.png").size[0] > 500


def test_certify(run, folder, capsys):
    assert main(["certify", str(run), "--data", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "200 images" in out
    assert "flipped predictions: 0" in out
    assert "the promise holds" in out


def test_certify_takes_images_without_classes(run, folder, tmp_path, capsys):
    for i, path in enumerate(sorted(folder.rglob("*.png"))[:5]):
        (tmp_path / f"{i}.png").write_bytes(path.read_bytes())
    (tmp_path / "bad.png").write_bytes(b"no image")
    assert main(["certify", str(run), "--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "5 images" in out
    assert "1 more could not be read" in out


def test_a_run_is_found_from_elsewhere(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", str(run), "--weights", "best"]) == 0
    assert "the validation part of" in capsys.readouterr().out


def test_weights_that_do_not_fit_a_model_are_said(run, folder, capsys):
    options = ["--model", "resnet10t", "--data", str(folder), "--checkpoint"]
    assert main(["evaluate", *options, str(run / "best.safetensors")]) == 1
    assert "named without --model" in capsys.readouterr().err
    assert main(["evaluate", *options, "none.safetensors"]) == 1
    assert "no weights at none.safetensors" in capsys.readouterr().err


def test_certify_ends_with_1_where_the_promise_is_broken(folder, tmp_path, capsys):
    output = str(tmp_path / "run")
    options = ["--model", "vmamba_nano", "--data", str(folder), "--output", output, "--epochs", "1", "--workers", "0"]
    assert main(["train", "--recipe", "laptop", *options, *SMALL]) == 0
    assert main(["certify", output]) == 1
    assert "BROKEN" in capsys.readouterr().out


def test_predict_files_folders_and_patterns(run, folder, capsys):
    one = str(folder / "digit 0" / "0.png")
    assert (
        main(["predict", str(run), one, str(folder / "digit 1"), str(folder / "digit 2" / "*.png"), "--top", "2"]) == 0
    )
    out = capsys.readouterr().out
    assert out.count(".png") == 1 + sum(len(list((folder / f"digit {i}").iterdir())) for i in (1, 2))


def test_predict_as_json_lines_and_csv(run, folder, capsys):
    one = str(folder / "digit 0" / "0.png")
    assert main(["predict", str(run), one, "--format", "jsonl", "--top", "2"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["file"] == one
    assert len(row["classes"]) == len(row["probabilities"]) == 2
    assert main(["predict", str(run), one, "--format", "csv", "--top", "2"]) == 0
    (line,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert line["class_1"] == row["classes"][0]
    assert float(line["probability_2"]) == pytest.approx(row["probabilities"][1])


def test_predict_from_standard_input(run, folder, capsys, monkeypatch):
    names = sorted(str(path) for path in (folder / "digit 3").iterdir())
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(names) + "\n"))
    assert main(["predict", str(run), "-", "--format", "jsonl", "--batch-size", "4"]) == 0
    assert [json.loads(line)["file"] for line in capsys.readouterr().out.splitlines()] == names


def test_predict_answers_the_others_when_some_are_broken(run, folder, tmp_path, capsys):
    (tmp_path / "bad.png").write_bytes(b"no image")
    good = str(folder / "digit 0" / "0.png")
    names = [str(tmp_path / "bad.png"), good, str(tmp_path / "none.png"), "https://localhost/x.png"]
    assert main(["predict", str(run), *names, "--format", "jsonl"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["file"] == good
    for message in ("bad.png cannot be read", "no image file at", "off unless asked for by --allow-urls"):
        assert message in said.err


def test_split_is_the_papers_protocol(folder, tmp_path, capsys):
    table = tmp_path / "t.csv"
    counts = ["--train-per-class", "10", "--val-per-class", "5"]
    assert main(["split", str(folder), *counts, "--output", str(table)]) == 0
    assert "100 images to train on and 50 to validate on, 10 classes" in capsys.readouterr().out
    rows = list(csv.DictReader(table.open()))
    assert sum(row["split"] == "train" for row in rows) == 100
    assert all((tmp_path / row["path"]).exists() for row in rows)
    assert main(["split", str(folder), *counts, "--output", str(table)]) == 1


@pytest.mark.parametrize(
    ("damage", "message"),
    [("cut", "damaged"), ("missing", "no checkpoint at"), ("foreign", "no safetensors file")],
)
def test_bad_checkpoints_are_said(run, folder, tmp_path, capsys, damage, message):
    path = tmp_path / "x.safetensors"
    if damage == "cut":
        path.write_bytes((run / "best.safetensors").read_bytes()[:-9])
    elif damage == "foreign":
        path.write_bytes(b"\x80\x04pickled")
    assert main(["predict", str(path), str(folder)]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"), [([], False), (["--cache"], True), (["--cache", "true"], True), (["--no-cache"], False)]
)
def test_flags_need_no_value(words, expected):
    assert train_parser().parse_args([*words, "--views", "3"]).cache is expected


def test_a_mistyped_option_or_recipe_is_said(capsys):
    for arguments in (["--epoks", "3"], ["--recipe", "laptob"], ["--epochs", "many"], ["--epoch", "3"]):
        with pytest.raises(SystemExit) as ended:
            main(["train", *arguments])
        assert ended.value.code == 2
    assert "laptop" in capsys.readouterr().err


def test_ctrl_c_saves_and_ends_with_130(folder, tmp_path):
    output = tmp_path / "run"
    options = ["--data", str(folder), "--output", str(output), "--epochs", "1000", "--workers", "0", *SMALL]
    command = [sys.executable, "-m", "spectral_vmamba", "train", "--recipe", "laptop", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (output / "last.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "go on with --resume" in said


def trained(folder, output) -> subprocess.CompletedProcess:
    options = ["--data", str(folder), "--workers", "0", "--epochs", "1", *SMALL, "--output", str(output)]
    command = [sys.executable, "-m", "spectral_vmamba", "train", "--recipe", "laptop", *options]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_full_disk_is_said(folder, tmp_path):
    """That the checkpoint of before is kept: tests/engine/test_checkpoint.py."""
    with small_disk(tmp_path) as disk:
        fill(disk, but=2**12)
        done = trained(folder, disk / "run")
        assert done.returncode == 1
        assert "no space left" in done.stderr.lower()


def test_a_read_only_folder_is_said_before_any_work(folder, tmp_path):
    with small_disk(tmp_path, "ro,size=1m") as disk:
        done = trained(folder, disk / "run")
        assert done.returncode == 1
        assert "cannot write to the output folder" in done.stderr


def test_a_image_of_noise_is_still_a_image(run, tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (300, 200, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "n.jpg")
    assert main(["predict", str(run), str(tmp_path / "n.jpg")]) == 0
