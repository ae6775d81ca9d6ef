"""Killed at any moment, a run goes on and ends with the same bits."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from spectral_vmamba.inference.checkpoint import load_checkpoint
from spectral_vmamba.training import Silent, TrainConfig, fit
from spectral_vmamba.utils.interruption import Interrupted
from tests.support.runs import same_tensors, small

# All augmentations, stochastic depth and averaging: everything that draws or remembers.
EVERYTHING = {"augment": TrainConfig().augment, "drop_path": 0.2, "epochs": 5, "batch_size": 32, "workers": 1}

_RUN = """
import sys
from pathlib import Path
from spectral_vmamba.training import Silent, fit
from tests.support.runs import small
from tests.training.test_resume import EVERYTHING
print("begins", flush=True)
fit(small(Path(sys.argv[1]), save_minutes=0.0, **EVERYTHING), resume=True, reporter=Silent())
"""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    began = time.monotonic()
    fit(small(folder, **EVERYTHING), reporter=Silent())
    return folder, time.monotonic() - began


def killed_often(folder, kills: int, seconds: float, seed: int) -> int:
    """Start, kill after a random time, and again; then let it end. Returns how many kills hit a run at work."""
    draw = random.Random(seed)
    command = [sys.executable, "-c", _RUN, str(folder)]
    hits = 0
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout is not None
        process.stdout.readline()  # until it begins
        try:
            process.wait(draw.uniform(0.1, seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its workers too
            process.wait()
            hits += 1
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return hits


def test_two_kills(uninterrupted, tmp_path):
    whole, seconds = uninterrupted
    assert killed_often(tmp_path / "run", 2, seconds, seed=0) > 0
    assert same_tensors(whole, tmp_path / "run")
    assert same_tensors(whole, tmp_path / "run", "best")


@pytest.mark.slow
def test_twenty_kills(uninterrupted, tmp_path):
    """In five runs of four kills each, so that the runs do not end before the kills do."""
    whole, seconds = uninterrupted
    hits = 0
    for seed in range(5):
        hits += killed_often(tmp_path / str(seed), 4, seconds / 3, seed=seed)
        assert same_tensors(whole, tmp_path / str(seed))
        assert same_tensors(whole, tmp_path / str(seed), "best")
    assert hits == 20


class Asking(Silent):
    """Sends this process a signal at a certain step."""

    def __init__(self, number: int, step: int):
        self.number, self.at = number, step

    def step(self, report):
        if report.step >= self.at:
            os.kill(os.getpid(), self.number)
            self.at = 10**9


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_ends_after_the_step_with_its_state_saved(uninterrupted, tmp_path, number, monkeypatch):
    monkeypatch.setattr("spectral_vmamba.training.fit._REPORT_SECONDS", 0.0)
    whole, _ = uninterrupted
    config = small(tmp_path, **EVERYTHING)
    handler = signal.getsignal(number)
    with pytest.raises(Interrupted, match="stopped after step 14 of 50; go on with --resume") as stopped:
        fit(config, reporter=Asking(number, 14))
    assert stopped.value.exit_code == 128 + number
    assert signal.getsignal(number) is handler
    assert load_checkpoint(tmp_path / "last.safetensors").facts["step"] == 14
    fit(config, resume=True, reporter=Silent())
    assert same_tensors(whole, tmp_path)
