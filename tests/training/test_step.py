"""One training step."""

import pytest

from spectral_vmamba.inference.checkpoint import load_checkpoint, save_checkpoint
from spectral_vmamba.models.classifier import Classifier
from spectral_vmamba.training import SilentReporter, TrainingError, fit
from tests.support.runs import digits_config


def test_a_loss_that_is_not_finite_stops_training_and_names_the_batch(tmp_path, monkeypatch):
    last = fit(digits_config(tmp_path, epochs=1), reporter=SilentReporter()).folder / "last.safetensors"
    checkpoint = load_checkpoint(last)
    checkpoint.header.training["config"]["epochs"] = 2
    save_checkpoint(last, checkpoint.tensors, checkpoint.header)
    before = last.read_bytes()
    call = Classifier.__call__
    monkeypatch.setattr(
        Classifier, "__call__", lambda self, images: call(self, images) * (float("nan") if self.training else 1.0)
    )
    message = r"the loss is not finite at step 6\. The batch: few_digits#\d+, .*the last checkpoint is .*last\.safe"
    with pytest.raises(TrainingError, match=message):
        fit(digits_config(tmp_path), resume=True, reporter=SilentReporter())
    assert last.read_bytes() == before
