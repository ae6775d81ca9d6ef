"""Whole or not at all, and damage is noticed."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from spectral_vmamba.inference.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from spectral_vmamba.utils.atomic_files import remove_leftovers
from tests.support.disks import fill, small_disk

TENSORS = {"raw.a": torch.arange(5.0), "raw.b": torch.tensor(3), "ema.a": torch.ones(2, 2, dtype=torch.bfloat16)}


def test_what_is_saved_comes_back(tmp_path):
    save_checkpoint(tmp_path / "x.safetensors", TENSORS, {"classes": ["ü", "b"], "step": 7})
    loaded = load_checkpoint(tmp_path / "x.safetensors")
    assert loaded.facts["classes"] == ["ü", "b"]
    assert all(loaded.tensors[name].equal(tensor) for name, tensor in TENSORS.items())
    assert loaded.part("raw").keys() == {"a", "b"}
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


@pytest.mark.parametrize("damage", ["flipped bit", "cut", "empty", "text"])
def test_damage_is_noticed(tmp_path, damage):
    path = tmp_path / "x.safetensors"
    save_checkpoint(path, TENSORS, {})
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes({"flipped bit": content, "cut": content[:-4], "empty": b"", "text": b"hello" * 9}[damage])
    with pytest.raises(CheckpointError, match="damaged"):
        load_checkpoint(path)


def test_other_files_are_told_apart(tmp_path):
    save_file({"a": torch.ones(1)}, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match="no spectral-vmamba checkpoint"):
        load_checkpoint(tmp_path / "x.safetensors")
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        load_checkpoint(tmp_path / "none.safetensors")


def test_a_full_disk_keeps_the_checkpoint_of_before(tmp_path):
    with small_disk(tmp_path) as disk:
        path = disk / "last.safetensors"
        save_checkpoint(path, {"raw.a": torch.ones(50_000)}, {"step": 1})
        fill(disk, but=2**16)
        with pytest.raises(OSError, match=r"no space left on the disk; last.safetensors of before is kept"):
            save_checkpoint(path, {"raw.a": torch.zeros(50_000)}, {"step": 2})
        assert load_checkpoint(path).facts["step"] == 1
        assert {each.name for each in disk.iterdir()} == {"last.safetensors", "filler"}


# Dies at the n-th call of the functions that writing goes through.
_KILLED = """
import os, signal, sys, torch
from pathlib import Path
import spectral_vmamba.inference.checkpoint as checkpoint
import spectral_vmamba.utils.atomic_files as files
import spectral_vmamba.utils.tensor_file as tensor_file
name, path = sys.argv[1], Path(sys.argv[2])
def die(*arguments, **keywords):
    if name == "half":
        arguments[1].write_bytes(b"x" * 100)
    os.kill(os.getpid(), signal.SIGKILL)
where, target = {"half": (tensor_file, "save_file"), "fsync": (files, "_flush"), "rename": (os, "replace")}[name]
setattr(where, target, die)
checkpoint.save_checkpoint(path, {"raw.a": torch.full((1000,), 2.0)}, {"step": 2})
"""


@pytest.mark.parametrize("moment", ["half", "fsync", "rename"])
def test_a_kill_while_writing_keeps_the_checkpoint_of_before(tmp_path, moment):
    path = tmp_path / "last.safetensors"
    save_checkpoint(path, {"raw.a": torch.full((1000,), 1.0)}, {"step": 1})
    done = subprocess.run([sys.executable, "-c", _KILLED, moment, str(path)])
    assert done.returncode == -9
    assert load_checkpoint(path).facts["step"] == 1
    assert len(list(tmp_path.iterdir())) == 2, "the kill came before anything was written"
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [path]
