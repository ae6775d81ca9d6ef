"""`spectral-vmamba traversal`."""

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.cli import main
from spectral_vmamba.data import photographs
from spectral_vmamba.models import SpectralTokenizer


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "coffee.png"
    Image.fromarray(photographs()["coffee"].permute(1, 2, 0).numpy()).resize((150, 100)).save(path)
    return path


@pytest.mark.parametrize("angle", ["90", "30"])
def test_the_plot_and_the_numbers(photo, tmp_path, capsys, angle):
    output = tmp_path / "out.png"
    assert main(["traversal", str(photo), str(photo), "--angle", angle, "-o", str(output), "--size", "96"]) == 0
    out = capsys.readouterr().out
    counts = "432 of 432 steps visit the same patch (VMamba's cross-scan: 0 of 216 steps visit the same patch)"
    assert (counts in out) == (angle == "90")
    assert f"coffee, rotated by {angle}°" in out
    assert f"wrote {output}" in out
    pixels = np.asarray(Image.open(output))
    assert min(pixels.shape[:2]) > 300
    assert pixels.std() > 10


def test_the_canonical_frame_is_off(photo, tmp_path, monkeypatch):
    """With the frame, both rows would be computed from the same bits."""
    built = []

    class RecordedTokenizer(SpectralTokenizer):
        def __init__(self, config):
            built.append(config)
            super().__init__(config)

    monkeypatch.setattr("spectral_vmamba.cli.traversal.SpectralTokenizer", RecordedTokenizer)
    assert main(["traversal", str(photo), "-o", str(tmp_path / "o.png"), "--size", "64", "--stem", "conv"]) == 0
    assert [config.frame for config in built] == ["none"]


def test_options(photo, tmp_path, capsys):
    stem = ["--stem", "conv", "--patch-size", "8", "--eigenvectors", "2", "--neighbors", "0", "--domain", "disk"]
    assert main(["traversal", str(photo), "-o", str(tmp_path / "o.png"), "--size", "64", *stem]) == 0
    correlations = capsys.readouterr().out.splitlines()[0].split("per eigenvector ")[1]
    assert len(correlations.split(", ")) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.png"], "no image file at absent.png"),
        (["{text}"], "cannot be read as an image"),
        (["{photo}", "-o", "/no/such/folder/x.png"], "cannot write /no/such/folder/x.png: no folder /no/such/folder"),
        (["{photo}", "--stem", "timm:nonsense"], "timm has no model"),
        (["{photo}", "--size", "0"], "at least 1 pixel"),
        (["{photo}", "--stem-weights", "absent.safetensors"], "no stem weights"),
    ],
)
def test_bad_input_is_one_clear_line(photo, tmp_path, capsys, arguments, message):
    text = tmp_path / "text.png"
    text.write_text("not an image")
    assert main(["traversal", *(argument.format(text=text, photo=photo) for argument in arguments)]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_brackets_in_names_are_not_markup(photo, tmp_path, capsys):
    odd = tmp_path / "pic[old].png"
    odd.write_bytes(photo.read_bytes())
    assert main(["traversal", str(odd), "-o", str(tmp_path / "o[1].png"), "--size", "64", "--stem", "conv"]) == 0
    out = capsys.readouterr().out
    assert "pic[old]" in out
    assert "o[1].png" in out
