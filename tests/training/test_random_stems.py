"""A frozen stem is never trained: it has its weights, or random ones were asked for. A checkpoint identifies them."""

from dataclasses import replace

import pytest
import torch

from spectral_vmamba.cli import main
from spectral_vmamba.inference import load
from spectral_vmamba.inference.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from spectral_vmamba.training import SilentReporter, fit, recipe
from tests.support.image_folders import write_noise
from tests.support.runs import digits_config

NARROW = {"widths": (8,), "depths": (1,)}
STEM = "tokenizer.rfn.stem."


class TitleReporter(SilentReporter):
    def begin(self, title, steps, done, epochs):
        self.title = title


@pytest.fixture
def no_weights(tmp_path, monkeypatch):
    """A machine on which no weights were downloaded."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "torch"))


@pytest.fixture
def data(tmp_path):
    write_noise(tmp_path / "data", count=4)
    return str(tmp_path / "data")


def config(data, output, **options):
    model_options = {"stem": "timm:resnet10t", **NARROW, **options}
    changes = {"model": "spectral_vmamba_tiny", "model_options": model_options, "image_size": 32}
    return digits_config(output, data=data, epochs=1, batch_size=4, **changes)


@pytest.mark.full
def test_the_paper_recipe_without_weights_is_an_error(data, tmp_path, capsys, no_weights):
    """Of the stem that the authors used, before the 300 epochs."""
    assert recipe("paper").crop == 0.875
    arguments = ["train", "--recipe", "paper", "--data", data, "--output", str(tmp_path / "run")]
    assert main(arguments) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "the stem timm:resnet18.tv_in1k requires pretrained weights" in error
    assert "timm.create_model('resnet18.tv_in1k', pretrained=True)" in error
    assert "--model-options '{stem_weights: none}'" in error
    assert not (tmp_path / "run" / "last.safetensors").exists()


def test_random_weights_can_be_asked_for_on_the_command_line(data, tmp_path, no_weights):
    options = "{stem_weights: none, stem: timm:resnet10t, widths: [8], depths: [1]}"
    small = ["--epochs", "1", "--workers", "0", "--batch-size", "4", "--image-size", "32", "--tracker", "none"]
    arguments = ["train", "--recipe", "paper", "--data", data, "--output", str(tmp_path / "run")]
    assert main([*arguments, *small, "--device", "cpu", "--model-options", options]) == 0


def test_every_run_with_a_frozen_stem_needs_its_weights(data, tmp_path, no_weights):
    with pytest.raises(FileNotFoundError, match="the stem timm:resnet10t requires pretrained weights"):
        fit(config(data, tmp_path / "run"), reporter=SilentReporter())


def test_a_checkpoint_identifies_its_stem_and_needs_no_other_weights(data, tmp_path, no_weights):
    reporter = TitleReporter()
    first = fit(config(data, tmp_path / "first", stem_weights="none"), reporter=reporter)
    checkpoint = load_checkpoint(first.folder / "best.safetensors")
    assert checkpoint.header.stem_sha256 is not None
    assert "stem_weights" not in checkpoint.header.model_options
    assert checkpoint.header.stem_sha256[:12] in reporter.title
    load(first.folder)
    initialized = fit(replace(config(data, tmp_path / "second"), initial=str(first.folder)), reporter=SilentReporter())
    again = load_checkpoint(initialized.folder / "best.safetensors").header
    assert again.stem_sha256 == checkpoint.header.stem_sha256
    changed = {name: tensor + 1 if STEM in name else tensor for name, tensor in checkpoint.tensors.items()}
    save_checkpoint(tmp_path / "x.safetensors", changed, checkpoint.header)
    with pytest.raises(CheckpointError, match=r"was trained with the frozen stem .* but contains the stem"):
        load(tmp_path / "x.safetensors")
