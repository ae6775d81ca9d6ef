"""Real photographs through the real pretrained stem, and through a trained network; runs stopped, damaged, changed."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from spectral_vmamba.retrieval import EmbedConfig, embed
from spectral_vmamba.retrieval.encoder import build_encoder
from spectral_vmamba.retrieval.reading import Eye
from spectral_vmamba.retrieval.store import OutputFolder, read_facts
from spectral_vmamba.training import fit
from tests.support.disks import fill, small_disk
from tests.support.image_folders import write_photographs
from tests.support.runs import small

COUNT = 12


def config(source, output, **changes) -> EmbedConfig:
    return replace(EmbedConfig(str(source), str(output), shard_size=5, batch_size=4, image_size=64), **changes)


def shards(output):
    return list(OutputFolder(output, read_facts(output)).shards())


def vectors(output) -> np.ndarray:
    return np.concatenate([shard.vectors for shard in shards(output)])


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    write_photographs(root, COUNT)
    return root


@pytest.fixture(scope="module")
def made(photos, tmp_path_factory):
    output = tmp_path_factory.mktemp("made")
    embed(config(photos, output, tokens=True))
    return output


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return fit(small(tmp_path_factory.mktemp("runs") / "run", epochs=1)).folder


def test_a_row_for_every_image(photos, made):
    table = pq.read_table(sorted(made.glob("part-*.parquet")))
    assert [len(pq.read_table(path)) for path in sorted(made.glob("part-*.parquet"))] == [5, 5, 2]
    assert table["file"].to_pylist() == sorted(str(path.relative_to(photos)) for path in photos.rglob("*.png"))
    assert table["label"].to_pylist() == ["even"] * 6 + ["odd"] * 6
    assert set(table["width"].to_pylist()) == {128}
    assert table.schema.field("vector").type.list_size == 224
    assert str(table.schema.field("vector").type.value_type) == "float"
    np.testing.assert_allclose(np.linalg.norm(vectors(made), axis=1), 1, atol=1e-6)
    facts = read_facts(made)
    assert (facts["finished"], facts["embedded"], facts["vector_length"]) == (True, COUNT, 224)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_turned_images_have_the_same_bits(made, tmp_path, quarters):
    """Also in other company: the turned ones come in other batches, beside a broken one."""
    write_photographs(tmp_path / "turned", COUNT, quarters=quarters)
    (tmp_path / "turned" / "even" / "bad.png").write_bytes(b"no image")
    (tmp_path / "turned" / "even" / "00.png").rename(tmp_path / "turned" / "odd" / "99.png")
    done = embed(config(tmp_path / "turned", tmp_path / "out", shard_size=100, batch_size=7))
    before = dict(zip([f for s in shards(made) for f in s.files], vectors(made), strict=True))
    before["odd/99.png"] = before.pop("even/00.png")
    (after,) = shards(tmp_path / "out")
    assert len(after) == COUNT
    assert all(np.array_equal(before[name], vector) for name, vector in zip(after.files, after.vectors, strict=True))
    assert [name for name, _ in done.broken] == ["even/bad.png"]


def test_a_image_that_is_not_square_too(tmp_path):
    found = []
    for quarters in range(4):
        write_photographs(tmp_path / f"{quarters}", 2, (150, 231), quarters)
        embed(config(tmp_path / f"{quarters}", tmp_path / f"out{quarters}"))
        found.append(vectors(tmp_path / f"out{quarters}"))
        shape = (231, 150) if quarters % 2 == 0 else (150, 231)
        assert {
            (w, h) for s in shards(tmp_path / f"out{quarters}") for w, h in zip(s.widths, s.heights, strict=True)
        } == {shape}
    assert all(np.array_equal(found[0], other) for other in found[1:])


def test_tokens_lie_where_the_image_shows_them(photos, made, tmp_path):
    write_photographs(tmp_path / "turned", COUNT, quarters=1)
    embed(config(tmp_path / "turned", tmp_path / "out", tokens=True))
    for upright, turned in zip(shards(made), shards(tmp_path / "out"), strict=True):
        assert upright.tokens.shape[1:] == (4, 112)
        assert upright.tokens.dtype == np.float16
        there = {tuple(cell): t for cell, t in zip(turned.cells.tolist(), turned.tokens.swapaxes(0, 1), strict=True)}
        for (row, column), tokens in zip(upright.cells.tolist(), upright.tokens.swapaxes(0, 1), strict=True):
            assert np.array_equal(there[(3 - column, row)], tokens), "an counterclockwise quarter turn"


def test_a_bright_corner_is_found_by_its_cell(tmp_path):
    """Against another way of placing tokens: the cell whose features change when the image is changed there."""
    encoder = build_encoder("spectral_vmamba_lite", None, None, "cpu")
    (path,) = write_photographs(tmp_path, 1)
    plain = np.asarray(Image.open(path)).copy()
    plain[0, :] = 0
    plain[0, 0] = 255  # fixes the canonical frame; outside the disk
    changed = plain.copy()
    changed[32:48, 80:96] = 255 - changed[32:48, 80:96]  # cell (2, 5) of 16 px
    seen = [Eye(encoder.preprocessing)(Image.fromarray(pixels)) for pixels in (plain, changed)]
    tokens = encoder.encode([s.pixels for s in seen], [s.quarters for s in seen], True).tokens.astype(np.float32)
    most = np.abs(tokens[0] - tokens[1]).sum(1).argmax()
    assert encoder.token_layout()[0][most].tolist() == [2, 5]


def test_arrays_hold_the_same(photos, made, tmp_path):
    embed(config(photos, tmp_path, format="npy", tokens=True))
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "cells.npy",
        "facts.json",
        "images.csv",
        "tokens.npy",
        "vectors.npy",
    ]
    assert np.array_equal(np.load(tmp_path / "vectors.npy"), vectors(made))
    assert np.array_equal(np.load(tmp_path / "tokens.npy"), np.concatenate([s.tokens for s in shards(made)]))
    assert np.array_equal(np.load(tmp_path / "cells.npy"), shards(made)[0].cells)
    rows = list(csv.DictReader((tmp_path / "images.csv").open()))
    assert [row["file"] for row in rows] == [name for shard in shards(made) for name in shard.files]
    assert rows[0] == {"file": "even/00.png", "width": "128", "height": "128", "label": "even"}
    again = embed(config(photos, tmp_path, format="npy", tokens=True))
    assert (again.computed, again.images) == (0, COUNT)
    with (tmp_path / "vectors.npy").open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"\0")
    assert embed(config(photos, tmp_path, format="npy", tokens=True)).computed == COUNT
    assert np.array_equal(np.load(tmp_path / "vectors.npy"), vectors(made))


def test_only_damaged_and_missing_shards_are_computed(photos, made, tmp_path):
    for path in made.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    settings = config(photos, tmp_path, tokens=True)
    assert embed(settings).computed == 0
    kept = (tmp_path / "part-00001.parquet").stat().st_ino
    whole = (made / "part-00000.parquet").read_bytes()
    flipped = bytearray(whole)
    flipped[2000] ^= 1
    for damaged in (whole[:-9], bytes(flipped), b""):
        (tmp_path / "part-00000.parquet").write_bytes(damaged)
        assert embed(settings).computed == 5
        assert (tmp_path / "part-00000.parquet").read_bytes() == whole
    (tmp_path / "part-00002.parquet").unlink()
    assert embed(settings).computed == 2
    assert (tmp_path / "part-00001.parquet").stat().st_ino == kept
    assert np.array_equal(vectors(tmp_path), vectors(made))


def test_a_shard_of_other_settings_is_computed_again(photos, made, tmp_path):
    embed(config(photos, tmp_path))
    ours = (tmp_path / "part-00001.parquet").read_bytes()
    (tmp_path / "part-00001.parquet").write_bytes((made / "part-00001.parquet").read_bytes())  # with tokens
    assert embed(config(photos, tmp_path)).computed == 5
    assert (tmp_path / "part-00001.parquet").read_bytes() == ours


def test_a_run_killed_in_the_middle_goes_on(photos, made, tmp_path):
    code = f"""
import os
from spectral_vmamba.retrieval import EmbedConfig, embed
def killed(items, told, total):
    for i, item in enumerate(items):
        if i == 3:
            os.kill(os.getpid(), 9)
        yield item
embed(EmbedConfig({str(photos)!r}, {str(tmp_path)!r}, shard_size=5, batch_size=4, image_size=64), progress=killed)"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == -9
    assert [path.name for path in sorted(tmp_path.glob("part-*"))] == ["part-00000.parquet"]
    assert not read_facts(tmp_path)["finished"]
    assert embed(config(photos, tmp_path)).computed == COUNT - 5
    assert np.array_equal(vectors(tmp_path), vectors(made))


def test_other_settings_or_images_are_refused_and_nothing_is_lost(made, tmp_path):
    write_photographs(tmp_path / "photos", 6)
    settings = config(tmp_path / "photos", tmp_path / "out")
    embed(settings)
    before = vectors(tmp_path / "out")
    with pytest.raises(ValueError, match=r"shard_size 5 \(now 3\).*--overwrite"):
        embed(replace(settings, shard_size=3))
    with pytest.raises(ValueError, match=r"size.*64.*now.*size.*96"):
        embed(replace(settings, image_size=96))
    path = tmp_path / "photos" / "even" / "02.png"
    stamp = path.stat()
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    with pytest.raises(ValueError, match="other images"):
        embed(settings)
    assert np.array_equal(vectors(tmp_path / "out"), before)
    assert embed(replace(settings, shard_size=3, overwrite=True)).computed == 6
    assert len(shards(tmp_path / "out")) == 2
    assert np.array_equal(vectors(tmp_path / "out"), before)


def test_a_folder_of_something_else_is_left_alone(photos, tmp_path):
    (tmp_path / "vectors.npy").write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"vectors\.npy but no facts\.json"):
        embed(config(photos, tmp_path))
    assert (tmp_path / "vectors.npy").read_bytes() == b"mine"


def test_broken_images_are_listed_with_reasons(tmp_path):
    write_photographs(tmp_path / "photos", 2)
    (tmp_path / "photos" / "a.png").write_bytes(b"no image")
    (tmp_path / "list.txt").write_text("photos/even/00.png\nphotos/a.png\n\nphotos/none.png\n")
    for format in ("parquet", "npy"):
        output = tmp_path / format
        done = embed(config(tmp_path / "list.txt", output, shard_size=2, format=format))
        assert done.images == 1
        first, second = (output / "broken.txt").read_text().splitlines()
        assert first.startswith("photos/a.png\t")
        assert "cannot be read as an image" in first
        assert "no image file at" in second
        again = embed(config(tmp_path / "list.txt", output, shard_size=2, format=format))
        assert (again.computed, again.broken) == (0, done.broken)


def test_sources(tmp_path):
    write_photographs(tmp_path / "photos" / "train", 2)
    write_photographs(tmp_path / "photos" / "val", 2)
    write_photographs(tmp_path / "photos" / "loose", 1)
    embed(config(tmp_path / "photos", tmp_path / "out"))
    (shard,) = shards(tmp_path / "out")
    assert dict(zip(shard.files, shard.labels, strict=True)) == {
        "loose/even/00.png": None,
        "train/even/00.png": "even",
        "train/odd/01.png": "odd",
        "val/even/00.png": "even",
        "val/odd/01.png": "odd",
    }
    pixels = np.zeros((2, 40, 40), np.uint8)
    np.savez(tmp_path / "pack.npz", x_train=pixels, y_train=np.arange(2), x_test=pixels, y_test=np.arange(2))
    embed(config(tmp_path / "pack.npz", tmp_path / "packed"))
    (shard,) = shards(tmp_path / "packed")
    assert shard.files == ["train/pack#0", "train/pack#1", "val/pack#0", "val/pack#1"]
    (tmp_path / "t.csv").write_text("path,label\nphotos/train/even/00.png,x\n")
    embed(config(tmp_path / "t.csv", tmp_path / "tabled"))
    (shard,) = shards(tmp_path / "tabled")
    assert (shard.files, shard.labels) == (["photos/train/even/00.png"], ["x"])


def test_a_trained_network_gives_what_its_classifier_sees(run, photos, tmp_path):
    import torch

    from spectral_vmamba.inference import load

    done = embed(config(photos, tmp_path / "out", checkpoint=str(run), image_size=None, tokens=True))
    assert (done.vector_length, done.quarter_turns_change_nothing) == (32, True)
    write_photographs(tmp_path / "turned", COUNT, quarters=3)
    embed(config(tmp_path / "turned", tmp_path / "out3", checkpoint=str(run), image_size=None))
    assert np.array_equal(vectors(tmp_path / "out"), vectors(tmp_path / "out3"))
    predictor = load(run)
    (shard, *_) = shards(tmp_path / "out")
    assert shard.tokens.shape == (5, 4, 32)
    view = predictor.preprocessing.pixels()(Image.open(photos / shard.files[0]).convert("RGB"))
    heads = predictor.model.head(torch.tensor(shard.vectors[:1]))
    logits = predictor.model(predictor.inputs(view[None]))
    offset = predictor.model.head.bias
    assert torch.nn.functional.cosine_similarity(heads - offset, logits - offset).item() == pytest.approx(1, abs=1e-5)


def test_a_network_without_a_pretrained_stem_is_refused(photos, tmp_path):
    with pytest.raises(ValueError, match="spectral_vmamba_nano has no pretrained stem"):
        embed(config(photos, tmp_path, model="spectral_vmamba_nano"))
    with pytest.raises(ValueError, match="expected a Spectral VMamba"):
        embed(config(photos, tmp_path, model="resnet18"))


def test_a_full_disk_is_said(photos, tmp_path):
    with small_disk(tmp_path) as disk:
        (disk / "out").mkdir()
        fill(disk, but=2**13)
        with pytest.raises(OSError, match="no space left on the disk"):
            embed(config(photos, disk / "out"))
        assert not list((disk / "out").glob("part-*"))
        assert not list((disk / "out").glob(".*.tmp"))


@pytest.mark.parametrize(("missing", "extra"), [("pyarrow", "embed"), ("ray", "ray")])
def test_a_missing_extra_is_named(photos, tmp_path, monkeypatch, missing, extra):
    monkeypatch.setitem(sys.modules, missing, None)
    engine = "ray" if missing == "ray" else "local"
    with pytest.raises(ImportError, match=rf"pip install 'spectral-vmamba\[{extra}\]'"):
        embed(config(photos, tmp_path, engine=engine))


def test_settings_are_checked():
    for wrong in ({"shard_size": 0}, {"batch_size": 0}, {"workers": -1}, {"image_size": 0}):
        with pytest.raises(ValueError, match=f"expected {next(iter(wrong))} of at least"):
            EmbedConfig("a", "b", **wrong)


def test_facts_are_plain_json(made):
    facts = json.loads((made / "facts.json").read_text())
    assert facts["settings"]["count"] == COUNT
    assert len(facts["settings"]["weights"]) == 64
