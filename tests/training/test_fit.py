"""Training learns, stops when it should, and says what is wrong."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from timm.utils.model_ema import ModelEmaV3
from torch import nn

from spectral_vmamba.data.readers.digits import digits
from spectral_vmamba.inference import load
from spectral_vmamba.inference.checkpoint import load_checkpoint
from spectral_vmamba.training import Silent, TrainConfig, TrainingError, fit
from spectral_vmamba.training.learner import Average
from spectral_vmamba.training.reporting import EpochReport
from spectral_vmamba.training.run_state import RunState
from tests.support.runs import same_tensors, small


def train(config, **options):
    return fit(config, reporter=Silent(), **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return train(small(folder, epochs=8, batch_size=32))


def test_it_learns(run):
    assert run.history[-1].loss < run.history[0].loss - 0.3
    assert run.best["top1"] > 0.3
    assert len(run.history) == 8


def test_the_folder_holds_everything(run):
    stored = load_checkpoint(run.folder / "best.safetensors").facts
    assert stored["classes"] == list("0123456789")
    assert stored["versions"]["torch"] == torch.__version__
    assert stored["fingerprints"]["train"] != stored["fingerprints"]["val"]
    assert TrainConfig.from_dict(stored["config"]).epochs == 8
    assert yaml.safe_load((run.folder / "config.yaml").read_text())["batch_size"] == 32
    assert len(json.loads((run.folder / "history.json").read_text())) == 8


def test_the_same_seed_gives_the_same_bits_with_any_number_of_workers(tmp_path):
    """All augmentations at work, and stochastic depth."""
    everything = {"augment": replace(TrainConfig().augment, turn=45.0), "drop_path": 0.2, "epochs": 1}
    for workers in (0, 1, 2):
        train(small(tmp_path / str(workers), workers=workers, **everything))
    assert same_tensors(tmp_path / "0", tmp_path / "1")
    assert same_tensors(tmp_path / "0", tmp_path / "2")
    train(small(tmp_path / "other", seed=1, **everything))
    assert not same_tensors(tmp_path / "0", tmp_path / "other")


def test_smaller_batches_add_up_to_the_whole(tmp_path):
    """Accumulated gradients are the mean over the whole batch; rounding apart, which AdamW's division enlarges."""
    losses = []
    for parts in (1, 4):
        result = train(small(tmp_path / str(parts), accumulate=parts, drop_path=0.0, epochs=1))
        losses.append(result.history[0].loss)
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_runs_of_one_process_have_settings_of_their_own(tmp_path):
    """In half precision and back; curves for TensorBoard where they are asked for."""
    losses = []
    for name, changes in (("a", {}), ("b", {"precision": "bf16", "tracker": "tensorboard"}), ("c", {})):
        losses.append([each.loss for each in train(small(tmp_path / name, epochs=1, **changes)).history])
    assert losses[0] == losses[2]
    assert losses[0] != losses[1]
    assert losses[1][0] == pytest.approx(losses[0][0], rel=0.02)
    assert list((tmp_path / "b" / "logs").rglob("events.out.tfevents.*"))
    assert not (tmp_path / "a" / "logs").exists()


def test_patience_ends_a_run(tmp_path):
    config = small(tmp_path, epochs=50, patience=2)
    config = replace(config, optimizer=replace(config.optimizer, lr=0.0, min_lr=0.0, warmup_lr=0.0))
    assert len(train(config).history) == 3


def test_an_existing_run_is_not_overwritten(run):
    with pytest.raises(ValueError, match="already holds a run"):
        train(small(run.folder))


def test_a_finished_run_has_nothing_left_to_do(run):
    again = train(small(run.folder, epochs=8, batch_size=32), resume=True)
    assert again.history == run.history


def test_going_on_keeps_the_settings(run):
    with pytest.raises(ValueError, match=r"seed = 0 \(now 5\)"):
        train(small(run.folder, epochs=8, batch_size=32, seed=5), resume=True)


def test_weights_of_another_run_for_other_classes(run, tmp_path):
    two = digits()
    two = two.subset(np.flatnonzero(two.labels < 2))
    for i in range(40):
        (tmp_path / "data" / str(two.labels[i])).mkdir(parents=True, exist_ok=True)
        two.opener(i).save(tmp_path / "data" / str(two.labels[i]) / f"{i}.png")
    initial = str(run.folder / "best.safetensors")
    config = small(tmp_path / "run", data=str(tmp_path / "data"), initial=initial, epochs=1, workers=0)
    train(config)
    assert load(tmp_path / "run").classes == ("0", "1")
    with pytest.raises(ValueError, match="does not fit the model"):
        train(replace(config, output=str(tmp_path / "b"), model_options={"widths": (4, 16), "depths": (1, 1)}))


def test_no_number_in_the_loss_stops_and_names_the_images(tmp_path, monkeypatch):
    from spectral_vmamba.models.classifier import Classifier

    first = train(small(tmp_path, epochs=1))
    good = (first.folder / "last.safetensors").read_bytes()
    whole = Classifier.__call__

    def poisoned(self, images):
        return whole(self, images) * (float("nan") if self.training else 1.0)

    monkeypatch.setattr(Classifier, "__call__", poisoned)
    checkpoint = load_checkpoint(first.folder / "last.safetensors")
    checkpoint.facts["config"]["epochs"] = 2
    from spectral_vmamba.inference.checkpoint import save_checkpoint

    save_checkpoint(first.folder / "last.safetensors", checkpoint.tensors, checkpoint.facts)
    before = (first.folder / "last.safetensors").read_bytes()
    assert before != good
    with pytest.raises(TrainingError, match=r"the loss is not a finite number at step 6.*digits#\d+.*last good"):
        train(small(tmp_path), resume=True)
    assert (first.folder / "last.safetensors").read_bytes() == before


def images_in(folder, classes=("a", "b"), count=20):
    rng = np.random.default_rng(0)
    for name in classes:
        (folder / name).mkdir(parents=True)
        for i in range(count):
            Image.fromarray(rng.integers(0, 255, (16, 16, 3), np.uint8)).save(folder / name / f"{i}.png")


def test_a_few_broken_images_are_left_out_and_listed(tmp_path):
    images_in(tmp_path / "data")
    (tmp_path / "data" / "a" / "3.png").write_bytes(b"no image")
    config = small(tmp_path / "run", data=str(tmp_path / "data"), batch_size=8, epochs=2, workers=0, max_broken=0.1)
    train(config)
    listed = tmp_path / "run" / "broken.txt"
    assert listed.read_text() == "a/3.png\n"
    with pytest.raises(ValueError, match=r"1 of 32 training images cannot be read, more than 0.00%.*a/3.png"):
        train(strict := replace(config, max_broken=0.0, output=str(tmp_path / "strict")))
    (tmp_path / "data" / "a" / "3.png").unlink()
    train(strict)
    assert not (tmp_path / "strict" / "broken.txt").exists(), "of the run before, which came to nothing"


def test_one_class_is_no_task(tmp_path):
    images_in(tmp_path / "data", classes=("only",))
    with pytest.raises(ValueError, match="at least two classes"):
        train(small(tmp_path / "run", data=str(tmp_path / "data")))


def test_an_output_folder_that_cannot_be_written_is_said_before_any_work(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="cannot write to the output folder"):
        train(replace(small(tmp_path / "run"), output=str(tmp_path / "file" / "run")))


def test_changed_images_are_noticed_when_going_on(tmp_path):
    images_in(tmp_path / "data")
    config = small(tmp_path / "run", data=str(tmp_path / "data"), batch_size=8, epochs=1, workers=0)
    train(config)
    Image.new("RGB", (99, 99)).save(tmp_path / "data" / "a" / "new.png")
    with pytest.raises(ValueError, match="not those that the run"):
        train(config, resume=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs"),
        ({"accumulate": 3}, "equal batches"),
        ({"ema": 1.0}, "ema"),
        ({"max_broken": 2}, "broken"),
    ],
)
def test_impossible_settings_are_refused(changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        small(tmp_path, **changes)


def test_unknown_models_and_options_say_so(tmp_path):
    with pytest.raises(ValueError, match="close names: spectral_vmamba_nano"):
        train(small(tmp_path / "a", model="spectral_vmamba_nanno"))
    with pytest.raises(ValueError, match="does not take these options"):
        train(small(tmp_path / "b", model_options={"color": "red"}))


def test_timm_models_train_too(tmp_path):
    options = {"layers": (1, 1, 1, 1), "channels": (8, 8, 8, 8)}
    result = train(small(tmp_path, model="resnet18", model_options=options, epochs=1, drop_path=None))
    assert load(result.folder).preprocessing.size == 16


@pytest.mark.parametrize("frozen", [False, True])
def test_the_average_is_timms(frozen):
    """Bit for bit, buffers too; what is frozen is left alone."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2))
    model[0].requires_grad_(not frozen)
    config = TrainConfig(data="", output="", ema=0.9, ema_warmup=True)
    ours, theirs = Average(model, config), ModelEmaV3(model, decay=0.9, use_warmup=True)
    optimizer = torch.optim.SGD([part for part in model.parameters() if part.requires_grad], lr=0.1)
    for step in range(1, 6):
        model(torch.randn(8, 3, 4, 4)).square().sum().backward()
        optimizer.step()
        for average in (ours, theirs):
            average.update(model, step=step)
    expected = theirs.module.state_dict()
    assert all(tensor.equal(expected[name]) for name, tensor in ours.module.state_dict().items())
    assert not expected["3.weight"].equal(model[3].weight)


def epoch(number: int, raw: float, raw_loss: float, ema: float | None = None, ema_loss: float | None = None):
    return EpochReport(number, number, 1.0, 1e-3, raw, raw_loss, ema, ema_loss, 1.0, 0.0, 1.0)


def test_the_best_epoch_is_the_most_accurate_and_of_equal_ones_the_surest():
    state = RunState()
    assert state.take(epoch(1, 0.5, 1.0, 0.4, 0.1))
    assert state.best["weights"] == "raw"
    assert not state.take(epoch(2, 0.5, 1.1))
    assert state.take(epoch(3, 0.5, 0.9))
    assert state.take(epoch(4, 0.5, 0.9, 0.6, 2.0))
    assert (state.best["weights"], state.best["top1"], state.best["epoch"]) == ("ema", 0.6, 4)
    assert not state.take(epoch(5, 0.5, 0.1))
    assert state.epochs_without_progress() == 1
