"""Shards joined into NumPy arrays."""

import csv
import os

import numpy as np
import pytest

from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.retrieval import embed
from spectral_vmamba.retrieval.array_files import read_arrays
from spectral_vmamba.retrieval.shard_files import DamagedShard
from tests.retrieval.conftest import COUNT, embed_config, read_shards, read_vectors
from tests.support.storages import make_unreadable


def test_arrays_equal_the_shards_and_damage_is_repaired(photos, embeddings, tmp_path):
    config = embed_config(photos, tmp_path, format="npy", tokens=True)
    embed(config)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cells.npy",
        "images.csv",
        "metadata.json",
        "tokens.npy",
        "vectors.npy",
    ]
    shards = read_shards(embeddings)
    assert np.array_equal(np.load(tmp_path / "vectors.npy"), read_vectors(embeddings))
    assert np.array_equal(np.load(tmp_path / "tokens.npy"), np.concatenate([shard.tokens for shard in shards]))
    assert np.array_equal(np.load(tmp_path / "cells.npy"), shards[0].cells)
    rows = list(csv.DictReader((tmp_path / "images.csv").open()))
    assert [row["file"] for row in rows] == [name for shard in shards for name in shard.files]
    assert rows[0] == {"file": "even/00.png", "width": "128", "height": "128", "label": "even"}
    again = embed(config)
    assert (again.computed, again.images) == (0, COUNT)
    with (tmp_path / "vectors.npy").open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"\0")
    assert embed(config).computed == COUNT
    assert np.array_equal(np.load(tmp_path / "vectors.npy"), read_vectors(embeddings))


def test_no_readable_image_gives_empty_arrays(tmp_path):
    dataset = make_unreadable(read_digits().subset(np.arange(3)), 0, 1, 2)
    result = embed(embed_config("digits", tmp_path, format="npy"), dataset)
    assert (result.images, [error.index for error in result.unreadable]) == (0, [0, 1, 2])
    assert np.load(tmp_path / "vectors.npy").shape == (0, 224)
    assert list(read_arrays(tmp_path, 10)) == []


def test_damaged_arrays_are_reported(tmp_path):
    np.save(tmp_path / "vectors.npy", np.zeros((3, 2), np.float32))
    (tmp_path / "images.csv").write_text("file,width,height,label\na.png,1,1,\n")
    with pytest.raises(DamagedShard, match=r"images\.csv ends before vectors\.npy does"):
        list(read_arrays(tmp_path, 2))
    (tmp_path / "vectors.npy").write_bytes(b"")
    with pytest.raises(DamagedShard, match=r"vectors\.npy is damaged"):
        list(read_arrays(tmp_path, 2))
