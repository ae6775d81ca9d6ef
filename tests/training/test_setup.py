"""From settings to a run: models, initial weights and data that do not match are rejected."""

from dataclasses import replace

import numpy as np
import pytest

from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.inference import load
from spectral_vmamba.training import OptimizerConfig, SilentReporter, fit
from tests.support.image_folders import write_noise
from tests.support.runs import digits_config


def train(config):
    return fit(config, reporter=SilentReporter())


def test_weights_that_ship_are_initial_weights(tmp_path):
    """By name; with a learning rate of almost nothing, the first epoch is as good as they are."""
    config = digits_config(
        tmp_path / "run",
        initial="spectral_vmamba_nano.digits",
        model_options={},
        image_size=32,
        epochs=1,
        optimizer=OptimizerConfig(lr=1e-9, min_lr=0, warmup_lr=0),
    )
    assert train(config).history[0].raw > 0.9


def test_initial_weights_of_another_run_with_other_classes(run, tmp_path):
    two = read_digits()
    two = two.subset(np.flatnonzero(two.labels < 2))
    for i in range(40):
        (tmp_path / "data" / str(two.labels[i])).mkdir(parents=True, exist_ok=True)
        two.open(i).save(tmp_path / "data" / str(two.labels[i]) / f"{i}.png")
    initial = str(run.folder / "best.safetensors")
    config = digits_config(tmp_path / "run", data=str(tmp_path / "data"), initial=initial, epochs=1)
    train(config)
    assert load(tmp_path / "run").classes == ("0", "1")
    narrower = {"widths": (4, 16), "depths": (1, 1)}
    with pytest.raises(ValueError, match="does not match the model"):
        train(replace(config, output=str(tmp_path / "b"), model_options=narrower))


def test_other_classes_for_a_network_of_timm_with_a_frame(tmp_path):
    """The names of its tensors begin with the wrapper's."""
    options = {"layers": (1, 1, 1, 1), "channels": (8, 8, 8, 8)}
    config = digits_config(tmp_path / "a", model="resnet18", model_options=options, frame="moment", drop_path=None)
    write_noise(tmp_path / "data", classes=("one", "other"))
    train(replace(config, epochs=1))
    other = replace(config, data=str(tmp_path / "data"), initial=str(tmp_path / "a"), output=str(tmp_path / "b"))
    train(replace(other, epochs=1))
    assert load(tmp_path / "b").classes == ("one", "other")


def test_one_class_is_not_enough(tmp_path):
    write_noise(tmp_path / "data", classes=("only",))
    with pytest.raises(ValueError, match="at least two classes"):
        train(digits_config(tmp_path / "run", data=str(tmp_path / "data")))


def test_unknown_models_and_options_are_rejected(tmp_path):
    with pytest.raises(ValueError, match="close names: spectral_vmamba_nano"):
        train(digits_config(tmp_path / "a", model="spectral_vmamba_nanno"))
    with pytest.raises(ValueError, match="does not take these options"):
        train(digits_config(tmp_path / "b", model_options={"color": "red"}))


def test_without_accelerate_the_extra_is_named(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(ImportError, match=r"this needs accelerate: pip install 'spectral-vmamba\[train\]'"):
        train(digits_config(tmp_path / "run"))
