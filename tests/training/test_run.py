"""The folder and the state of a run: killed at any moment, a run resumes and ends with the same bits."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module

import pytest
from PIL import Image

from spectral_vmamba.inference.checkpoint import CheckpointError, load_checkpoint
from spectral_vmamba.training import SilentReporter, TrainConfig, fit
from spectral_vmamba.training.reporting import EpochReport
from spectral_vmamba.training.run import RunFolder, RunState
from spectral_vmamba.utils.interruption import Interrupted
from tests.support.image_folders import write_noise
from tests.support.runs import digits_config, tensors_equal

# All augmentations, stochastic depth and averaging: everything that draws random numbers or has a state.
EVERYTHING = {"augment": TrainConfig().augment, "drop_path": 0.2, "epochs": 5, "batch_size": 32, "workers": 1}

_RUN = """
import sys
from pathlib import Path
from spectral_vmamba.training import SilentReporter, fit
from tests.support.runs import digits_config
from tests.training.test_run import EVERYTHING
print("started", flush=True)
fit(digits_config(Path(sys.argv[1]), save_minutes=0.0, **EVERYTHING), resume=True, reporter=SilentReporter())
"""


def train(config, **options):
    return fit(config, reporter=SilentReporter(), **options)


# -- resuming ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The folder of a run, and its duration in seconds."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    started = time.monotonic()
    train(digits_config(folder, **EVERYTHING))
    return folder, time.monotonic() - started


def kill_and_resume(folder, kills: int, seconds: float, seed: int) -> int:
    """Start the run and kill it after a random time, `kills` times; then let it finish. Returns how many kills hit."""
    generator = random.Random(seed)
    command = [sys.executable, "-c", _RUN, str(folder)]
    hits = 0
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout is not None
        process.stdout.readline()  # wait until it has started
        try:
            process.wait(generator.uniform(0.1, seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its workers too
            process.wait()
            hits += 1
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return hits


@pytest.mark.full
def test_a_run_resumes_after_two_kills(uninterrupted, tmp_path):
    expected, seconds = uninterrupted
    assert kill_and_resume(tmp_path / "run", 2, seconds, seed=0) > 0
    assert tensors_equal(expected, tmp_path / "run")
    assert tensors_equal(expected, tmp_path / "run", "best")


@pytest.mark.slow
def test_a_run_resumes_after_twenty_kills(uninterrupted, tmp_path):
    """Five runs with four kills each, so that the runs do not end before the kills do."""
    expected, seconds = uninterrupted
    hits = 0
    for seed in range(5):
        hits += kill_and_resume(tmp_path / str(seed), 4, seconds / 3, seed=seed)
        assert tensors_equal(expected, tmp_path / str(seed))
        assert tensors_equal(expected, tmp_path / str(seed), "best")
    assert hits == 20


class SignalAtStep(SilentReporter):
    """Sends this process a signal at a given step."""

    def __init__(self, number: int, step: int):
        self.number, self.at = number, step

    def step(self, report):
        if report.step >= self.at:
            os.kill(os.getpid(), self.number)
            self.at = 10**9


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full)])
def test_a_signal_stops_the_run_after_the_step_and_saves_it(uninterrupted, tmp_path, number, monkeypatch):
    monkeypatch.setattr(import_module("spectral_vmamba.training.engine"), "_REPORT_SECONDS", 0.0)
    expected, _ = uninterrupted
    config = digits_config(tmp_path, **EVERYTHING)
    handler = signal.getsignal(number)
    with pytest.raises(Interrupted, match="stopped after step 14 of 50; resume with --resume") as stopped:
        fit(config, reporter=SignalAtStep(number, 14))
    assert stopped.value.exit_code == 128 + number
    assert signal.getsignal(number) is handler
    assert load_checkpoint(tmp_path / "last.safetensors").header.training["state"]["step"] == 14
    train(config, resume=True)
    assert tensors_equal(expected, tmp_path)


def test_an_existing_run_is_not_overwritten(run):
    with pytest.raises(ValueError, match="already contains a run; resume it with --resume"):
        train(digits_config(run.folder))


def test_a_run_resumes_with_its_own_settings_only(run):
    with pytest.raises(ValueError, match=r"was started with seed = 0 \(now 5\); omit them to resume"):
        train(digits_config(run.folder, epochs=8, batch_size=32, seed=5), resume=True)


def test_changed_images_are_noticed_when_a_run_resumes(tmp_path):
    write_noise(tmp_path / "data")
    config = digits_config(tmp_path / "run", data=str(tmp_path / "data"), batch_size=8, epochs=1)
    train(config)
    Image.new("RGB", (99, 99)).save(tmp_path / "data" / "a" / "new.png")
    with pytest.raises(ValueError, match=r"the images differ from those that the run in .* was started with"):
        train(config, resume=True)


def test_a_damaged_checkpoint_explains_how_to_continue(tmp_path):
    (tmp_path / "last.safetensors").write_bytes(b"damaged")
    with pytest.raises(
        CheckpointError, match=r"damaged .*; start a new run, from the best epoch with --initial .*best"
    ):
        RunFolder(tmp_path).checkpoint(resume=True)


def test_a_folder_that_cannot_be_written_is_noticed_before_any_work(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="cannot write to the output folder"):
        train(replace(digits_config(tmp_path / "run"), output=str(tmp_path / "file" / "run")))


# -- state -------------------------------------------------------------------------------------------------------------


def epoch(number: int, raw: float, raw_loss: float, ema: float | None = None, ema_loss: float | None = None):
    return EpochReport(number, number, 1.0, 1e-3, raw, raw_loss, ema, ema_loss, 1.0, 0.0, 1.0)


def test_the_best_epoch_is_the_most_accurate_and_then_the_one_with_the_smallest_loss():
    state = RunState()
    assert state.end_epoch(epoch(1, 0.5, 1.0, 0.4, 0.1))
    assert state.best["weights"] == "raw"
    assert not state.end_epoch(epoch(2, 0.5, 1.1))
    assert state.end_epoch(epoch(3, 0.5, 0.9))
    assert state.end_epoch(epoch(4, 0.5, 0.9, 0.6, 2.0))
    assert (state.best["weights"], state.best["score"], state.best["epoch"]) == ("ema", 0.6, 4)
    assert not state.end_epoch(epoch(5, 0.5, 0.1))
    assert state.better_weights() == "raw", "at the last epoch, not at the best"
    assert state.epochs_without_improvement() == 1
