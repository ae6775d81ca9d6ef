"""`spectral-vmamba train`."""

import signal
import subprocess
import sys
import time

import pytest
import yaml

from spectral_vmamba.cli import main
from tests.support.commands import SMALL_NETWORK
from tests.support.disks import fill_disk, small_disk


def test_options_override_the_recipe(run_folder):
    stored = yaml.safe_load((run_folder / "config.yaml").read_text())
    assert stored["epochs"] == 2
    assert stored["augment"]["rotation"] == 45
    assert stored["optimizer"]["warmup_epochs"] == 2


def test_data_is_required(tmp_path, capsys):
    assert main(["train", "--output", str(tmp_path / "run")]) == 1
    assert "training requires images: --data photos/" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_train_prints_the_next_command_and_resumes(digit_folders, tmp_path, capsys):
    output = str(tmp_path / "run")
    options = ["--data", str(digit_folders), "--output", output, "--epochs", "1", *SMALL_NETWORK]
    arguments = ["train", "--recipe", "laptop", *options]
    assert main([*arguments, "--workers", "0"]) == 0
    out = capsys.readouterr().out
    for fact in (
        "160 training images of 10 classes",
        "img/s",
        "waiting for data",
        f"evaluate {output} --rotations 15",
    ):
        assert fact in out
    assert "best validation accuracy: " in out
    assert "The same validation images selected this epoch; use --test-fraction for an untouched test set." in out
    assert main(arguments) == 1
    assert "already contains a run" in capsys.readouterr().err
    assert main([*arguments, "--resume"]) == 0


def test_ctrl_c_saves_the_run_and_exits_with_130(digit_folders, tmp_path):
    output = tmp_path / "run"
    options = ["--data", str(digit_folders), "--output", str(output), "--epochs", "1000", "--workers", "0"]
    command = [sys.executable, "-m", "spectral_vmamba", "train", "--recipe", "laptop", *options, *SMALL_NETWORK]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (output / "last.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "resume with --resume" in errors


def train_in_process(data, output) -> subprocess.CompletedProcess:
    options = ["--data", str(data), "--workers", "0", "--epochs", "1", *SMALL_NETWORK, "--output", str(output)]
    command = [sys.executable, "-m", "spectral_vmamba", "train", "--recipe", "laptop", *options]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.full
def test_a_full_disk_is_one_clear_line(digit_folders, tmp_path):
    """tests/inference/test_checkpoint.py checks that the previous checkpoint is unchanged."""
    with small_disk(tmp_path) as disk:
        fill_disk(disk, leave=2**12)
        done = train_in_process(digit_folders, disk / "run")
        assert done.returncode == 1
        assert "no space left" in done.stderr.lower()


@pytest.mark.full
def test_a_read_only_folder_is_reported_before_the_work(digit_folders, tmp_path):
    with small_disk(tmp_path, "ro,size=1m") as disk:
        done = train_in_process(digit_folders, disk / "run")
        assert done.returncode == 1
        assert "cannot write to the output folder" in done.stderr
