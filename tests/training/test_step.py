"""One training step."""

import signal
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from spectral_vmamba.data.loader import TrainSamples
from spectral_vmamba.inference.checkpoint import load_checkpoint, save_checkpoint
from spectral_vmamba.models.classifier import Classifier
from spectral_vmamba.training import SilentReporter, TrainingError, fit
from spectral_vmamba.training.classification_task import disagreement
from spectral_vmamba.utils.interruption import Interrupted
from tests.support.runs import CROPS_ONLY, digits_config, quick_config, tensors_equal
from tests.training.test_run import SignalAtStep


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


def test_disagreement_is_the_mean_of_both_divergences():
    logits = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    p, q = logits.log_softmax(1).chunk(2)
    divergences = [F.kl_div(a, b, log_target=True, reduction="batchmean") for a, b in ((p, q), (q, p))]
    torch.testing.assert_close(disagreement(logits), sum(divergences) / 2)
    assert torch.autograd.gradcheck(disagreement, logits)
    assert disagreement(logits[:3].repeat(2, 1)) == 0


@pytest.mark.parametrize("views", [0, 4])
def test_consistency_shows_two_views_of_each_image(views, tmp_path, monkeypatch):
    """The halves of every batch are different views of the same images, and the predictions come closer together."""
    halves = []
    load = TrainSamples.__getitem__

    def record(self, key):
        sample = load(self, key)
        halves.append((sample.index, sample.view.pixels))
        return sample

    monkeypatch.setattr(TrainSamples, "__getitem__", record)
    config = digits_config(tmp_path / "run", epochs=1, views=views, consistency=2.0)
    fit(config, reporter=SilentReporter())
    batch = halves[: 2 * config.batch_size]
    first, second = batch[: config.batch_size], batch[config.batch_size :]
    assert [i for i, _ in first] == [i for i, _ in second]
    equal = [torch.equal(a, b) for (_, a), (_, b) in zip(first, second, strict=True)]
    assert sum(equal) < len(equal) / 4
    plain = digits_config(tmp_path / "plain", epochs=1, views=views)
    assert not tensors_equal(Path(config.output), fit(plain, reporter=SilentReporter()).folder)


@pytest.mark.full
def test_consistency_resumes_with_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("spectral_vmamba.training.engine"), "_REPORT_SECONDS", 0.0)
    config = digits_config(tmp_path / "whole", epochs=3, views=2, consistency=1.0)
    fit(config, reporter=SilentReporter())
    with pytest.raises(Interrupted):
        fit(replace(config, output=str(tmp_path / "resumed")), reporter=SignalAtStep(signal.SIGINT, 7))
    fit(replace(config, output=str(tmp_path / "resumed")), resume=True, reporter=SilentReporter())
    assert tensors_equal(tmp_path / "whole", tmp_path / "resumed")


def test_consistency_needs_two_views_of_unmixed_images():
    with pytest.raises(ValueError, match="two different views"):
        quick_config(views=1, consistency=1.0, augment=CROPS_ONLY)
    with pytest.raises(ValueError, match="which mixup and cutmix would mix"):
        quick_config(consistency=1.0, augment=replace(CROPS_ONLY, mixup=0.8))
    with pytest.raises(ValueError, match="consistency of at least 0, got -1"):
        quick_config(consistency=-1.0, augment=CROPS_ONLY)
