"""`spectral-vmamba predict`."""

import csv
import io
import json
import time
from functools import partial

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.cli import main
from spectral_vmamba.data.find import NamedImage, find_images
from spectral_vmamba.utils.progress import progress_bars
from tests.support.commands import SMALL_NETWORK


def test_files_folders_and_patterns(run_folder, digit_folders, capsys):
    names = [digit_folders / "digit 0" / "0.png", digit_folders / "digit 1", digit_folders / "digit 2" / "*.png"]
    assert main(["predict", str(run_folder), *map(str, names), "--top", "2"]) == 0
    out = capsys.readouterr().out
    assert out.count(".png") == 1 + sum(len(list((digit_folders / f"digit {i}").iterdir())) for i in (1, 2))


def test_a_table_is_written_at_the_end_and_its_progress_to_standard_error(
    run_folder, digit_folders, capsys, monkeypatch
):
    bars = partial(progress_bars, line_seconds=0.05)
    monkeypatch.setattr("spectral_vmamba.cli.predict.progress_bars", bars)
    monkeypatch.setattr("spectral_vmamba.cli.predict.find_images", slow_images)
    assert main(["predict", str(run_folder), str(digit_folders / "digit 0" / "0.png")]) == 0
    captured = capsys.readouterr()
    assert "classifying: 0 of 1 after 0 s\n" in captured.err
    assert "classifying" not in captured.out


def slow_images(names, allow_urls):
    for image in find_images(names, allow_urls):

        def open_slowly(image=image):
            time.sleep(0.2)
            return image.open()

        yield NamedImage(image.name, open_slowly)


def test_json_lines_and_csv(run_folder, digit_folders, capsys):
    name = str(digit_folders / "digit 0" / "0.png")
    assert main(["predict", str(run_folder), name, "--format", "jsonl", "--top", "2"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["file"] == name
    assert len(row["classes"]) == len(row["probabilities"]) == 2
    assert main(["predict", str(run_folder), name, "--format", "csv", "--top", "2"]) == 0
    (line,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert line["class_1"] == row["classes"][0]
    assert float(line["probability_2"]) == row["probabilities"][1]


def test_paths_from_standard_input(run_folder, digit_folders, capsys, monkeypatch):
    names = sorted(str(path) for path in (digit_folders / "digit 3").iterdir())
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(names) + "\n"))
    assert main(["predict", str(run_folder), "-", "--format", "jsonl", "--batch-size", "4"]) == 0
    assert [json.loads(line)["file"] for line in capsys.readouterr().out.splitlines()] == names


def test_unreadable_images_are_reported_and_the_others_classified(run_folder, digit_folders, tmp_path, capsys):
    (tmp_path / "bad.png").write_bytes(b"not an image")
    good = str(digit_folders / "digit 0" / "0.png")
    names = [str(tmp_path / "bad.png"), good, str(tmp_path / "none.png"), "https://localhost/x.png"]
    assert main(["predict", str(run_folder), *names, "--format", "jsonl"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["file"] == good
    for message in ("bad.png cannot be read", "no image file at", "downloading requires --allow-urls"):
        assert message in captured.err


@pytest.mark.parametrize(
    ("damage", "message"),
    [("cut", "damaged"), ("missing", "no checkpoint at"), ("foreign", "not a safetensors file")],
)
def test_a_bad_checkpoint_is_one_clear_line(run_folder, digit_folders, tmp_path, capsys, damage, message):
    path = tmp_path / "x.safetensors"
    if damage == "cut":
        path.write_bytes((run_folder / "best.safetensors").read_bytes()[:-9])
    elif damage == "foreign":
        path.write_bytes(b"\x80\x04pickled")
    assert main(["predict", str(path), str(digit_folders)]) == 1
    assert message in capsys.readouterr().err


def test_noise_of_another_size_is_classified_too(run_folder, tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (300, 200, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "n.jpg")
    assert main(["predict", str(run_folder), str(tmp_path / "n.jpg")]) == 0


def test_borders_are_left_out_with_the_frame_moment_and_named(photo_folders, tmp_path, capsys):
    run = tmp_path / "run"
    options = ["--data", str(photo_folders), "--output", str(run), "--epochs", "1", "--workers", "0"]
    assert main(["train", "--recipe", "laptop", "--frame", "moment", *options, *SMALL_NETWORK]) == 0
    photo = next(photo_folders.rglob("*.png"))
    turned = tmp_path / "turned.png"
    with Image.open(photo) as image:
        image.rotate(30, Image.Resampling.BICUBIC, expand=True).save(turned)
    capsys.readouterr()
    assert main(["predict", str(run), str(photo), str(turned), "--format", "csv"]) == 0
    captured = capsys.readouterr()
    assert "left out the uniform border of 1 image (" in captured.err
    assert "turned.png" in captured.err
    original, other = (float(line.split(",")[2]) for line in captured.out.splitlines()[1:])
    assert main(["predict", str(run), str(turned), "--format", "csv", "--keep-borders"]) == 0
    captured = capsys.readouterr()
    assert "border" not in captured.err
    with_border = float(captured.out.splitlines()[1].split(",")[2])
    assert abs(original - other) <= abs(original - with_border) + 1e-3


def test_weights_that_ship_are_chosen_by_name(digit_folders, capsys):
    images = [str(min((digit_folders / f"digit {i}").iterdir())) for i in (0, 1)]
    name = "spectral_vmamba_nano.digits"
    answers = []
    for arguments in ([name, *images], ["--model", name, *images], [*images, "--model", name]):
        assert main(["predict", *arguments, "--format", "jsonl", "--top", "1"]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1] == answers[2]
    rows = [json.loads(line) for line in answers[0].splitlines()]
    assert [(row["file"], row["classes"]) for row in rows] == [(images[0], ["0"]), (images[1], ["1"])]


def test_unknown_weights_list_those_that_ship(digit_folders, capsys):
    image = str(digit_folders / "digit 0" / "0.png")
    assert main(["predict", "--model", "spectral_vmamba_nano.birds", image]) == 1
    assert "no weights 'spectral_vmamba_nano.birds' ship with the package; there are" in capsys.readouterr().err
    assert main(["predict", "--model", "spectral_vmamba_nano", image]) == 1
    assert (
        "no checkpoint at spectral_vmamba_nano; weights that ship: spectral_vmamba_nano.digits"
        in capsys.readouterr().err
    )


def test_a_classifier_without_images_is_one_clear_line(run_folder, capsys):
    assert main(["predict", str(run_folder)]) == 1
    assert f"expected images after the classifier {run_folder}" in capsys.readouterr().err
