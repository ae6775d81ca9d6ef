"""The commands of segmentation, from a folder of images and masks to files."""

import json

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.cli import main
from tests.segmentation.conftest import write_pairs

pytest.importorskip("segmentation_models_pytorch", reason="needs the extra `segment`")

SMALL = ["--model-options", "{widths: [8, 16], depths: [1, 1]}", "--size", "32", "--batch-size", "4", "--workers", "0"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("segment")
    write_pairs(folder / "tiles")
    options = ["--recipe", "segment_nano", "--data", str(folder / "tiles"), "--output", str(folder / "run")]
    assert main(["segment", "train", *options, *SMALL, "--steps", "4", "--tracker", "none"]) == 0
    return folder


def test_train_names_the_next_commands(trained, capsys):
    options = ["--data", str(trained / "tiles"), "--output", str(trained / "run"), "--resume"]
    assert main(["segment", "train", *options]) == 0
    output = capsys.readouterr().out
    assert "this run has already finished its 4 steps" in output
    assert "best validation mean IoU" in output
    assert "segment predict" in output


def test_another_decoder_than_the_recipes(trained, tmp_path):
    options = ["--recipe", "segment_nano", "--data", str(trained / "tiles"), "--output", str(tmp_path / "run")]
    assert main(["segment", "train", *options, *SMALL, "--decoder", "unet", "--steps", "1", "--tracker", "none"]) == 0


def test_evaluate_prints_and_writes_the_numbers(trained, capsys, tmp_path):
    options = ["--rotations", "90", "--multi-scale", "--output", str(tmp_path / "report")]
    assert main(["segment", "evaluate", str(trained / "run"), *options]) == 0
    output = capsys.readouterr().out
    assert "at least 100.00% of the pixels keep their class" in " ".join(output.split())
    report = json.loads((tmp_path / "report" / "evaluation.json").read_text())
    assert report["classes"] == ["ground", "disk"]
    assert (tmp_path / "report" / "angles.csv").read_text().count("\n") == 5


def test_predict_writes_every_format_also_after_bad_files(trained, capsys, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no image")
    images = [str(trained / "tiles" / "images" / "00.png"), str(tmp_path / "bad.png")]
    formats = ["--formats", "mask", "overlay", "geojson", "coco", "areas"]
    assert main(["segment", "predict", str(trained / "run"), *images, "--output", str(tmp_path / "out"), *formats]) == 1
    captured = capsys.readouterr()
    assert "bad.png" in captured.err
    assert "segmented 1 image" in captured.out
    (mask,) = (tmp_path / "out" / "masks").rglob("*.png")
    assert np.asarray(Image.open(mask)).shape == (48, 48)
    assert len(list((tmp_path / "out").rglob("*.geojson"))) == 1
    assert {"coco.json", "areas.csv", "unreadable.txt"} <= {path.name for path in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["segment"], "expected a command: train, evaluate or predict"),
        (["segment", "predict"], "segment predict requires CHECKPOINT and IMAGES and --output, as in"),
        (["segment", "train", "--decodr", "fpn"], "did you mean --decoder?"),
        (["segment", "train", "--recipe", "segment_lit"], "did you mean segment_lite?"),
    ],
)
def test_usage_errors(arguments, message, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in " ".join(capsys.readouterr().err.split())


def test_classifiers_and_segmentation_networks_are_not_mixed_up(trained, capsys):
    assert main(["predict", str(trained / "run"), str(trained / "tiles" / "images" / "00.png")]) == 1
    assert "contains a segmentation network; use `spectral-vmamba segment`" in " ".join(capsys.readouterr().err.split())
