"""The output folder: which shards are computed again, and which folders are rejected."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from spectral_vmamba.retrieval import embed
from spectral_vmamba.retrieval.store import read_metadata
from tests.retrieval.conftest import COUNT, embed_config, read_shards, read_vectors
from tests.support.image_folders import write_photographs


@pytest.mark.full
def test_only_damaged_and_missing_shards_are_computed(photos, embeddings, tmp_path):
    for path in embeddings.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = embed_config(photos, tmp_path, tokens=True)
    assert embed(config).computed == 0
    untouched = (tmp_path / "part-00001.parquet").stat().st_ino
    intact = (embeddings / "part-00000.parquet").read_bytes()
    flipped = bytearray(intact)
    flipped[2000] ^= 1
    for damaged in (intact[:-9], bytes(flipped), b""):
        (tmp_path / "part-00000.parquet").write_bytes(damaged)
        assert embed(config).computed == 5
        assert (tmp_path / "part-00000.parquet").read_bytes() == intact
    (tmp_path / "part-00002.parquet").unlink()
    assert embed(config).computed == 2
    assert (tmp_path / "part-00001.parquet").stat().st_ino == untouched
    assert np.array_equal(read_vectors(tmp_path), read_vectors(embeddings))


def test_a_shard_of_other_settings_is_computed_again(photos, embeddings, tmp_path):
    embed(embed_config(photos, tmp_path))
    own = (tmp_path / "part-00001.parquet").read_bytes()
    (tmp_path / "part-00001.parquet").write_bytes((embeddings / "part-00001.parquet").read_bytes())  # with tokens
    assert embed(embed_config(photos, tmp_path)).computed == 5
    assert (tmp_path / "part-00001.parquet").read_bytes() == own


def test_other_settings_and_images_are_rejected_and_nothing_is_lost(embeddings, tmp_path):
    write_photographs(tmp_path / "photos", 6)
    config = embed_config(tmp_path / "photos", tmp_path / "out")
    embed(config)
    before = read_vectors(tmp_path / "out")
    with pytest.raises(ValueError, match=r"shard_size 5 \(now 3\).*--overwrite"):
        embed(replace(config, shard_size=3))
    with pytest.raises(ValueError, match=r"size.*64.*now.*size.*96"):
        embed(replace(config, image_size=96))
    path = tmp_path / "photos" / "even" / "02.png"
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(ValueError, match="other images"):
        embed(config)
    assert np.array_equal(read_vectors(tmp_path / "out"), before)
    assert embed(replace(config, shard_size=3, overwrite=True)).computed == 6
    assert len(read_shards(tmp_path / "out")) == 2
    assert np.array_equal(read_vectors(tmp_path / "out"), before)


def test_a_folder_with_other_files_is_rejected(photos, tmp_path):
    (tmp_path / "vectors.npy").write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"contains vectors\.npy but no metadata\.json"):
        embed(embed_config(photos, tmp_path))
    assert (tmp_path / "vectors.npy").read_bytes() == b"something else"


def test_metadata_is_plain_json_and_comes_back_the_same(embeddings):
    stored = json.loads((embeddings / "metadata.json").read_text())
    assert stored["settings"]["count"] == COUNT
    assert len(stored["settings"]["weights"]) == 64
    metadata = read_metadata(embeddings)
    assert metadata.token_shape == (4, 112)
    assert all(isinstance(cell, tuple) for cell in metadata.cells)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind": "other"}', '{"kind": "spectral-vmamba embeddings"}', '{"settings": 5}']
)
def test_metadata_that_describes_something_else_is_rejected(tmp_path, text):
    (tmp_path / "metadata.json").write_text(text)
    with pytest.raises(ValueError, match=r"metadata\.json does not describe embeddings"):
        read_metadata(tmp_path)
