"""The tool as a person meets it."""

import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba import create_model
from spectral_vmamba.cli import main
from spectral_vmamba.models import FAMILIES

TRAINING = [["train"], ["evaluate"], ["certify"], ["predict"], ["split"]]


@pytest.fixture
def photo(tmp_path):
    from spectral_vmamba.data import photographs

    path = tmp_path / "coffee.png"
    Image.fromarray(photographs()["coffee"].permute(1, 2, 0).numpy()).resize((150, 100)).save(path)
    return path


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_info(capsys):
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    for fact in (
        "torch",
        "timm",
        "portable",
        "native",
        "eigensolvers",
        "spectral-vmamba models",
    ):
        assert fact in out


def test_models_prints_one_table(capsys, monkeypatch):
    monkeypatch.setattr("spectral_vmamba.metrics.catalog.TIMM_MODELS", {})
    families = [
        replace(family, architectures={name: family.architectures[name]})
        for family in FAMILIES
        for name in ("vmamba_tiny", "vim_tiny", "spectral_vmamba_tiny")
        if name in family.names
    ]
    monkeypatch.setattr("spectral_vmamba.metrics.catalog.FAMILIES", families)
    assert main(["models", "--num-classes", "100"]) == 0
    out = capsys.readouterr().out
    for fact in ("29,556,964", "6,974,308", "203,988,068", "3.904", "8.112", "quarter turns", "authors count"):
        assert fact in out


def test_models_refuses_no_classes(capsys):
    assert main(["models", "--num-classes", "0"]) == 1
    assert "at least 1" in capsys.readouterr().err


def test_unknown_models_are_answered_with_close_names():
    with pytest.raises(ValueError, match="vmamba_small"):
        create_model("vmamba_smal")


@pytest.mark.parametrize("command", [[], ["info"], ["models"], ["traversal"], ["demo"], *TRAINING])
def test_help_teaches(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    assert len(capsys.readouterr().out) > 150


@pytest.mark.parametrize("angle", ["90", "30"])
def test_traversal_draws(photo, tmp_path, capsys, angle):
    output = tmp_path / "out.png"
    assert main(["traversal", str(photo), str(photo), "--angle", angle, "-o", str(output), "--size", "96"]) == 0
    out = capsys.readouterr().out
    assert ("100.00% of the visiting steps unchanged" in out) == (angle == "90")
    assert str(output) in out
    image = np.asarray(Image.open(output))
    assert min(image.shape[:2]) > 300
    assert image.std() > 10


def test_traversal_options(photo, tmp_path):
    options = [
        "--stem",
        "conv",
        "--patch-size",
        "8",
        "--eigenvectors",
        "2",
        "--neighbors",
        "0",
        "--domain",
        "disk",
    ]
    assert main(["traversal", str(photo), "-o", str(tmp_path / "o.png"), "--size", "64", *options]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.png"], "no image file at absent.png"),
        (["{text}"], "cannot be read as an image"),
        (["{photo}", "-o", "/no/such/folder/x.png"], "there is no folder"),
        (["{photo}", "--stem", "timm:nonsense"], "timm has no model"),
        (["{photo}", "--size", "0"], "at least one pixel"),
        (["{photo}", "--stem-weights", "absent.safetensors"], "no stem weights"),
    ],
)
def test_bad_input_is_one_clear_line(photo, tmp_path, capsys, arguments, message):
    text = tmp_path / "text.png"
    text.write_text("not a image")
    arguments = [a.format(text=text, photo=photo) for a in arguments]
    assert main(["traversal", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_brackets_in_names_are_not_markup(photo, tmp_path, capsys):
    odd = tmp_path / "pic[old].png"
    odd.write_bytes(photo.read_bytes())
    assert main(["traversal", str(odd), "-o", str(tmp_path / "o[1].png"), "--size", "64", "--stem", "conv"]) == 0
    out = capsys.readouterr().out
    assert "pic[old]" in out
    assert "o[1].png" in out


def test_unknown_command_exits_with_two(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["transmogrify"])
    assert stop.value.code == 2


def test_the_demo_writes_a_report_that_needs_nothing_else(tmp_path, capsys):
    folder = tmp_path / "demo"
    arguments = ["demo", "-o", str(folder), "--epochs", "1", "--step", "90"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "(0 flips)" in out
    report = (folder / "report.html").read_text()
    assert report.count("data:image/png;base64,") == len(list(folder.glob("*.png"))) == 8
    assert not re.search(r'(src|href)="(?!data:)', report)
    for fact in ("Spectral VMamba nano", "VMamba nano", "spectral-vmamba demo --epochs 1", "torch 2"):
        assert fact in report
    assert main(arguments) == 0, "a demo that has finished is measured again"
    assert "already finished its 22 steps" in capsys.readouterr().out
