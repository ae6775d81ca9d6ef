"""Embed photographs with the pretrained stem and with a trained network; interrupt, limit and break the runs."""

import os
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.inference import load
from spectral_vmamba.retrieval import embed
from spectral_vmamba.retrieval.store import read_metadata
from tests.retrieval.conftest import COUNT, embed_config, read_shards, read_vectors
from tests.support.disks import fill_disk, small_disk
from tests.support.image_folders import write_photographs


def test_one_row_per_image(photos, embeddings):
    files = sorted(embeddings.glob("part-*.parquet"))
    assert [len(pq.read_table(path)) for path in files] == [5, 5, 2]
    table = pq.read_table(files)
    assert table["file"].to_pylist() == sorted(str(path.relative_to(photos)) for path in photos.rglob("*.png"))
    assert table["label"].to_pylist() == ["even"] * 6 + ["odd"] * 6
    assert set(table["width"].to_pylist()) == {128}
    assert table.schema.field("vector").type.list_size == 224
    assert str(table.schema.field("vector").type.value_type) == "float"
    np.testing.assert_allclose(np.linalg.norm(read_vectors(embeddings), axis=1), 1, rtol=0, atol=5e-7)  # measured: 6e-8
    metadata = read_metadata(embeddings)
    assert (metadata.finished, metadata.embedded, metadata.vector_length) == (True, COUNT, 224)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_turned_images_have_the_same_bits(embeddings, tmp_path, quarters):
    """In other batches, and next to an unreadable image."""
    write_photographs(tmp_path / "turned", COUNT, quarters=quarters)
    bad = tmp_path / "turned" / "even" / "bad.png"
    bad.write_bytes(b"no image")
    (tmp_path / "turned" / "even" / "00.png").rename(tmp_path / "turned" / "odd" / "99.png")
    result = embed(embed_config(tmp_path / "turned", tmp_path / "out", shard_size=100, batch_size=7))
    upright = dict(zip([f for s in read_shards(embeddings) for f in s.files], read_vectors(embeddings), strict=True))
    upright["odd/99.png"] = upright.pop("even/00.png")
    (shard,) = read_shards(tmp_path / "out")
    assert len(shard) == COUNT
    assert all(np.array_equal(upright[name], vector) for name, vector in zip(shard.files, shard.vectors, strict=True))
    reason = f"{bad} cannot be read as an image: unknown format"
    assert result.unreadable == shard.unreadable == [ReadError(5, "even/bad.png", reason)]


def test_turned_images_that_are_not_square_have_the_same_bits(tmp_path):
    vectors = []
    for quarters in range(4):
        write_photographs(tmp_path / f"{quarters}", 2, (150, 231), quarters)
        embed(embed_config(tmp_path / f"{quarters}", tmp_path / f"out{quarters}"))
        (shard,) = read_shards(tmp_path / f"out{quarters}")
        vectors.append(shard.vectors)
        size = (231, 150) if quarters % 2 == 0 else (150, 231)
        assert set(zip(shard.widths, shard.heights, strict=True)) == {size}
    assert all(np.array_equal(vectors[0], other) for other in vectors[1:])


def test_tokens_are_in_the_orientation_of_the_image(embeddings, tmp_path):
    write_photographs(tmp_path / "turned", COUNT, quarters=1)
    embed(embed_config(tmp_path / "turned", tmp_path / "out", tokens=True))
    for upright, turned in zip(read_shards(embeddings), read_shards(tmp_path / "out"), strict=True):
        assert upright.tokens.shape[1:] == (4, 112)
        assert upright.tokens.dtype == np.float16
        by_cell = {tuple(cell): t for cell, t in zip(turned.cells.tolist(), turned.tokens.swapaxes(0, 1), strict=True)}
        for (row, column), tokens in zip(upright.cells.tolist(), upright.tokens.swapaxes(0, 1), strict=True):
            assert np.array_equal(by_cell[(3 - column, row)], tokens), "after a counterclockwise quarter turn"


@pytest.mark.full
def test_a_killed_run_resumes(photos, embeddings, tmp_path):
    code = f"""
import os
from spectral_vmamba.retrieval import EmbedConfig, embed
def kill_at_fourth_batch(items, description, total):
    for i, item in enumerate(items):
        if i == 3:
            os.kill(os.getpid(), 9)
        yield item
settings = dict(features="stem", shard_size=5, batch_size=4, image_size=64)
config = EmbedConfig({str(photos)!r}, {str(tmp_path)!r}, **settings)
embed(config, progress=kill_at_fourth_batch)"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == -9
    assert [path.name for path in sorted(tmp_path.glob("part-*"))] == ["part-00000.parquet"]
    assert not read_metadata(tmp_path).finished
    assert embed(embed_config(photos, tmp_path)).computed == COUNT - 5
    assert np.array_equal(read_vectors(tmp_path), read_vectors(embeddings))


@pytest.mark.parametrize("storage", ["parquet", "npy"])
def test_unreadable_images_are_listed_with_reasons(tmp_path, storage):
    write_photographs(tmp_path / "photos", 2)
    bad = tmp_path / "photos" / "a.png"
    bad.write_bytes(b"no image")
    (tmp_path / "list.txt").write_text("photos/even/00.png\nphotos/a.png\n\nphotos/none.png\n")
    config = embed_config(tmp_path / "list.txt", tmp_path / "out", shard_size=2, format=storage)
    result = embed(config)
    assert result.images == 1
    assert result.unreadable == [
        ReadError(1, "photos/a.png", f"{bad} cannot be read as an image: unknown format"),
        ReadError(2, "photos/none.png", f"no image file at {tmp_path}/photos/none.png"),
    ]
    lines = [f"{error.name}\t{error.reason}" for error in result.unreadable]
    assert (tmp_path / "out" / "unreadable.txt").read_text().splitlines() == lines
    again = embed(config)
    assert (again.computed, again.unreadable) == (0, result.unreadable)


def test_names_and_labels_that_are_not_utf8(tmp_path):
    (path,) = write_photographs(tmp_path / "photos", 1)
    path.parent.rename(tmp_path / "photos" / "caf\udce9")
    for storage in ("parquet", "npy"):
        embed(embed_config(tmp_path / "photos", tmp_path / storage, format=storage))
    (shard,) = read_shards(tmp_path / "parquet")
    assert (shard.files, shard.labels) == (["caf\ufffd/00.png"], ["caf\ufffd"])
    assert (tmp_path / "npy" / "images.csv").read_text().splitlines()[1] == "caf\ufffd/00.png,128,128,caf\ufffd"


def test_sources(tmp_path):
    write_photographs(tmp_path / "photos" / "train", 2)
    write_photographs(tmp_path / "photos" / "val", 2)
    write_photographs(tmp_path / "photos" / "loose", 1)
    embed(embed_config(tmp_path / "photos", tmp_path / "out"))
    (shard,) = read_shards(tmp_path / "out")
    assert dict(zip(shard.files, shard.labels, strict=True)) == {
        "loose/even/00.png": None,
        "train/even/00.png": "even",
        "train/odd/01.png": "odd",
        "val/even/00.png": "even",
        "val/odd/01.png": "odd",
    }
    pixels = np.zeros((2, 40, 40), np.uint8)
    np.savez(tmp_path / "pack.npz", x_train=pixels, y_train=np.arange(2), x_test=pixels, y_test=np.arange(2))
    embed(embed_config(tmp_path / "pack.npz", tmp_path / "packed"))
    (shard,) = read_shards(tmp_path / "packed")
    assert shard.files == ["train/pack#0", "train/pack#1", "val/pack#0", "val/pack#1"]
    (tmp_path / "t.csv").write_text("path,label\nphotos/train/even/00.png,x\n")
    embed(embed_config(tmp_path / "t.csv", tmp_path / "table"))
    (shard,) = read_shards(tmp_path / "table")
    assert (shard.files, shard.labels) == (["photos/train/even/00.png"], ["x"])


def test_a_trained_network_gives_the_input_of_its_classifier(run, photos, tmp_path):
    result = embed(embed_config(photos, tmp_path / "out", checkpoint=str(run), image_size=None, tokens=True))
    assert (result.vector_length, result.quarter_turn_invariant) == (32, True)
    write_photographs(tmp_path / "turned", COUNT, quarters=3)
    embed(embed_config(tmp_path / "turned", tmp_path / "out3", checkpoint=str(run), image_size=None))
    assert np.array_equal(read_vectors(tmp_path / "out"), read_vectors(tmp_path / "out3"))
    predictor = load(run)
    (shard, *_) = read_shards(tmp_path / "out")
    assert shard.tokens.shape == (5, 4, 32)
    view = predictor.preprocessing.eval_transform()(Image.open(photos / shard.files[0]).convert("RGB"))
    head = predictor.model.head
    from_vector = head(torch.tensor(shard.vectors[:1])) - head.bias  # up to the length of the vector
    logits = predictor.model(predictor.inputs(view.pixels[None])) - head.bias
    cosine = torch.nn.functional.cosine_similarity(from_vector, logits)
    assert cosine.item() == pytest.approx(1, abs=5e-7)  # measured: 6e-8


def test_a_full_disk_is_reported(photos, tmp_path):
    with small_disk(tmp_path) as disk:
        (disk / "out").mkdir()
        fill_disk(disk, leave=2**13)
        with pytest.raises(OSError, match="no space left on the disk"):
            embed(embed_config(photos, disk / "out"))
        assert not list((disk / "out").glob("part-*"))
        assert not list((disk / "out").glob(".*.tmp"))


@pytest.mark.parametrize(("missing", "extra"), [("pyarrow", "embed"), ("ray", "ray")])
def test_a_missing_package_names_its_extra(photos, tmp_path, monkeypatch, missing, extra):
    monkeypatch.setitem(sys.modules, missing, None)
    engine = "ray" if missing == "ray" else "local"
    with pytest.raises(ImportError, match=rf"pip install 'spectral-vmamba\[{extra}\]'"):
        embed(embed_config(photos, tmp_path, engine=engine))
