"""Checkpoints: written completely or not at all, verified when read, with a typed header."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference.checkpoint import (
    FORMAT,
    KIND,
    CheckpointError,
    CheckpointHeader,
    find_checkpoint,
    load_checkpoint,
    load_weights,
    save_checkpoint,
)
from spectral_vmamba.utils.atomic_files import remove_temporary_files
from spectral_vmamba.utils.settings import from_dict, to_json_dict
from spectral_vmamba.utils.tensor_file import write_tensors
from tests.support.disks import fill_disk, small_disk

TENSORS = {"raw.a": torch.arange(5.0), "raw.b": torch.tensor(3), "ema.a": torch.ones(2, 2, dtype=torch.bfloat16)}
HEADER = CheckpointHeader(
    model="spectral_vmamba_nano",
    model_options={"domain": "disk"},
    classes=("ü", "b"),
    preprocessing=Preprocessing(32, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), crop=0.9, frame="quarter"),
    split=DataSplit("photos", None, 0.2, 7),
    has_ema=True,
    best_weights="ema",
    versions={"torch": "2"},
    training={"step": 1},
)


def write_header(path, **changes) -> None:
    """Write a checkpoint whose header differs from what this version writes; None removes a field."""
    stored = {**to_json_dict(HEADER), "format": FORMAT, **changes}
    write_tensors(path, TENSORS, KIND, {name: value for name, value in stored.items() if value is not None})


def test_round_trip(tmp_path):
    save_checkpoint(tmp_path / "x.safetensors", TENSORS, HEADER)
    loaded = load_checkpoint(tmp_path / "x.safetensors")
    assert loaded.header == HEADER
    assert all(loaded.tensors[name].equal(tensor) for name, tensor in TENSORS.items())
    assert loaded.with_prefix("raw").keys() == {"a", "b"}
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


@given(
    st.lists(st.text(), max_size=5).map(tuple),
    st.tuples(*[st.floats(0, 1)] * 3),
    st.none() | st.text(),
    st.booleans(),
    st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=3),
)
def test_header_round_trip(classes, mean, val_data, has_ema, options):
    header = CheckpointHeader(
        "m", options, classes, Preprocessing(16, mean, mean), DataSplit("d", val_data, 0.1, 3), has_ema
    )
    assert from_dict(CheckpointHeader, json.loads(json.dumps(to_json_dict(header)))) == header


@pytest.mark.parametrize("damage", ["flipped bit", "cut", "empty", "text"])
def test_damage_is_noticed(tmp_path, damage):
    path = tmp_path / "x.safetensors"
    save_checkpoint(path, TENSORS, HEADER)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes({"flipped bit": content, "cut": content[:-4], "empty": b"", "text": b"hello" * 9}[damage])
    with pytest.raises(CheckpointError, match="damaged"):
        load_checkpoint(path)


def test_other_files_are_rejected(tmp_path):
    save_file({"a": torch.ones(1)}, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match="not a spectral-vmamba checkpoint"):
        load_checkpoint(tmp_path / "x.safetensors")
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        load_checkpoint(tmp_path / "none.safetensors")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (FORMAT + 1, r"written by a newer version of this package .*torch.*; update this package"),
        (2, r"written by an older version of this package .*torch.*; train again"),
        (None, "written by an older version"),
    ],
)
def test_another_format_is_rejected(tmp_path, number, message):
    write_header(tmp_path / "x.safetensors", format=number)
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(tmp_path / "x.safetensors")


@pytest.mark.parametrize(("canonical", "frame"), [(True, "quarter"), (False, "none")])
def test_format_3_had_other_names_of_the_frame(tmp_path, canonical, frame):
    preprocessing = {"size": 32, "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6], "crop": 0.9, "canonical": canonical}
    options = {"domain": "disk", "canonical_frame": canonical, "rotations": "none"}
    write_header(tmp_path / "x.safetensors", format=3, preprocessing=preprocessing, model_options=options)
    header = load_checkpoint(tmp_path / "x.safetensors").header
    assert header.preprocessing == replace(HEADER.preprocessing, frame=frame)
    assert header.model_options == {"domain": "disk", "frame": frame, "turns": 1}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"preprocessing": None}, "preprocessing"),
        ({"preprocessing": 5}, "preprocessing"),
        ({"preprocessing": {"size": 3, "mean": [0], "std": [1], "color": "red"}}, "color"),
        ({"split": ["photos"]}, "split"),
        ({"color": "red"}, "color"),
    ],
)
def test_a_header_with_other_fields_is_rejected(tmp_path, changes, field):
    write_header(tmp_path / "x.safetensors", **changes)
    with pytest.raises(CheckpointError, match=rf"x\.safetensors has a header that cannot be read: .*{field}"):
        load_checkpoint(tmp_path / "x.safetensors")


def test_a_full_disk_keeps_the_previous_checkpoint(tmp_path):
    with small_disk(tmp_path) as disk:
        path = disk / "last.safetensors"
        save_checkpoint(path, {"raw.a": torch.ones(50_000)}, HEADER)
        fill_disk(disk, leave=2**16)
        later = replace(HEADER, training={"step": 2})
        with pytest.raises(OSError, match=r"no space left on the disk; the previous last\.safetensors is unchanged"):
            save_checkpoint(path, {"raw.a": torch.zeros(50_000)}, later)
        assert load_checkpoint(path).header == HEADER
        assert {each.name for each in disk.iterdir()} == {"last.safetensors", "filler"}


# Dies at the first call of one of the functions that writing goes through, in a child process for each of them.
_KILLED = """
import os, signal, sys, torch
from pathlib import Path
import spectral_vmamba.utils.atomic_files as atomic_files
import spectral_vmamba.utils.tensor_file as tensor_file
from spectral_vmamba.inference.checkpoint import save_checkpoint
from tests.inference.test_checkpoint import HEADER

places = {"half": (tensor_file, "save_file"), "fsync": (atomic_files, "_flush"), "rename": (os, "replace")}
for name, (module, function) in places.items():
    child = os.fork()
    if child == 0:
        def die(*arguments, **keywords):
            if name == "half":
                arguments[1].write_bytes(b"x" * 100)
            os.kill(os.getpid(), signal.SIGKILL)
        setattr(module, function, die)
        path = Path(sys.argv[1]) / name / "last.safetensors"
        save_checkpoint(path, {"raw.a": torch.full((1000,), 2.0)}, HEADER)
        os._exit(0)
    print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.full
def test_a_kill_while_writing_keeps_the_previous_checkpoint(tmp_path):
    moments = ("half", "fsync", "rename")
    for moment in moments:
        (tmp_path / moment).mkdir()
        save_checkpoint(tmp_path / moment / "last.safetensors", {"raw.a": torch.full((1000,), 1.0)}, HEADER)
    done = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout.split() == ["half", "-9", "fsync", "-9", "rename", "-9"], done.stderr
    for moment in moments:
        path = tmp_path / moment / "last.safetensors"
        assert load_checkpoint(path).tensors["raw.a"].eq(1).all()
        assert len(list(path.parent.iterdir())) == 2, "the kill came before anything was written"
        remove_temporary_files(path.parent)
        assert list(path.parent.iterdir()) == [path]


def test_weights_are_chosen_by_name(tmp_path):
    save_checkpoint(tmp_path / "x.safetensors", TENSORS, HEADER)
    checkpoint = load_checkpoint(tmp_path / "x.safetensors")
    assert checkpoint.header.available_weights == ["ema", "raw"]
    assert checkpoint.weights("best").keys() == checkpoint.weights("ema").keys() == {"a"}
    assert checkpoint.weights("raw").keys() == {"a", "b"}
    raw_only = replace(HEADER, has_ema=False, best_weights="raw")
    save_checkpoint(tmp_path / "x.safetensors", {"raw.a": TENSORS["raw.a"]}, raw_only)
    checkpoint = load_checkpoint(tmp_path / "x.safetensors")
    assert checkpoint.header.available_weights == ["raw"]
    with pytest.raises(ValueError, match="has no ema weights"):
        checkpoint.weights("ema")


def test_the_checkpoint_of_a_run_is_that_of_its_best_epoch(tmp_path):
    assert find_checkpoint(tmp_path / "x.safetensors") == tmp_path / "x.safetensors"
    (tmp_path / "last.safetensors").touch()
    with pytest.raises(ValueError, match="has not finished an epoch yet; resume it with --resume"):
        find_checkpoint(tmp_path)
    (tmp_path / "best.safetensors").touch()
    assert find_checkpoint(str(tmp_path)) == tmp_path / "best.safetensors"


def test_weights_of_another_model_are_rejected():
    with pytest.raises(CheckpointError, match=r"(?s)does not match the model: .*bias"):
        load_weights(torch.nn.Linear(2, 3), {"weight": torch.zeros(3, 2)})


@pytest.mark.parametrize(
    "training", [{}, {"config": 5}, {"config": {"augment": 5}}, {"config": {"augment": {"smoothing": "x"}}}]
)
def test_settings_of_the_run_are_none_if_they_are_not_what_they_should_be(training):
    header = CheckpointHeader("m", {}, ("a",), Preprocessing(32, (0.5,), (0.5,)), DataSplit("d", None, 0.2, 0), False)
    assert replace(header, training=training).training_setting(float, "config", "augment", "smoothing") is None
    stored = {"config": {"augment": {"smoothing": 0.1}}}
    assert replace(header, training=stored).training_setting(float, "config", "augment", "smoothing") == 0.1
