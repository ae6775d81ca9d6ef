"""Tensors in one file with a header and a checksum."""

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spectral_vmamba.utils.tensor_file import TensorFileError, digest_tensors, read_tensors, write_tensors

KIND = "test tensors"
TENSORS = {
    "floats": torch.arange(6.0).reshape(2, 3),
    "half": torch.ones(2, dtype=torch.bfloat16),
    "flags": torch.tensor([True, False]),
    "number": torch.tensor(3),
    "empty": torch.empty(0, 4),
    "transposed": torch.arange(6).reshape(2, 3).T,
}


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("tensors") / "x.safetensors"
    write_tensors(path, TENSORS, KIND, {"step": 7})
    return path.read_bytes()


def test_round_trip(tmp_path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, TENSORS, KIND, {"classes": ("ü", "b"), "step": 7})
    tensors, header = read_tensors(path, KIND)
    assert header == {"classes": ["ü", "b"], "step": 7, "kind": KIND}
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert tensors[name].equal(tensor)


def test_files_have_the_usual_permissions(tmp_path):
    write_tensors(tmp_path / "x.safetensors", TENSORS, KIND, {})
    (tmp_path / "plain").touch()
    assert (tmp_path / "x.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode


@given(st.data())
def test_every_changed_byte_is_noticed(tmp_path_factory, content, data):
    position = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[position] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("damaged") / "x.safetensors"
    path.write_bytes(changed)
    try:
        tensors, header = read_tensors(path, KIND)
    except TensorFileError:
        return
    # Whitespace of the header, for example, can change without changing what it says.
    assert header == {"step": 7, "kind": KIND}
    assert all(tensors[name].equal(tensor) for name, tensor in TENSORS.items())


def test_other_kinds_and_missing_files_are_rejected(tmp_path):
    path = tmp_path / "x.safetensors"
    write_tensors(path, TENSORS, "another kind", {})
    with pytest.raises(TensorFileError, match="not a test tensors"):
        read_tensors(path, KIND)
    with pytest.raises(FileNotFoundError):
        read_tensors(tmp_path / "none.safetensors", KIND)
    os.mkdir(tmp_path / "folder")
    with pytest.raises(IsADirectoryError):
        read_tensors(tmp_path / "folder", KIND)


def test_the_digest_covers_names_types_shapes_and_values():
    one = torch.arange(6.0)
    variants = [
        {"a": one},
        {"b": one},
        {"a": one.double()},
        {"a": one.reshape(2, 3)},
        {"a": one + 1},
        {"a": one, "b": one},
        {},
    ]
    assert len({digest_tensors(variant) for variant in variants}) == len(variants)
    assert digest_tensors({"a": one, "b": one * 2}) == digest_tensors({"b": one * 2, "a": one})
    assert digest_tensors({"a": one.reshape(2, 3).T}) == digest_tensors({"a": one.reshape(2, 3).T.contiguous()})
