"""Fill the feature cache: each file is read once, work is shared and resumed, and only missing views are computed."""

import os
import re
import signal
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from spectral_vmamba.data.dataset import digest_content
from spectral_vmamba.data.photographs import photograph_crops
from spectral_vmamba.data.readers.folder import FileStorage, read_unlabeled_folder
from spectral_vmamba.data.readers.npz import read_npz
from spectral_vmamba.features import ViewRequest, augmented_views, cache_dataset, fill, rotated_views
from spectral_vmamba.features.fill import FeatureComputer
from spectral_vmamba.inference.network import default_preprocessing
from spectral_vmamba.ops.turns import Rotation
from spectral_vmamba.utils.interruption import Interrupted
from spectral_vmamba.utils.progress import Estimate
from tests.support.caches import ROTATED, cache_rows, lite_model, open_lite_store
from tests.support.disks import fill_disk, small_disk
from tests.support.image_folders import write_photographs
from tests.support.runs import NoteReporter
from tests.support.storages import log_reads, make_unreadable

# -- every file is read once -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_each_image_is_read_once(model, dataset, preprocessing, view, tmp_path, workers):
    """Also on a second run, which reads the images to find their rows. Two requests, and more than one stem pass."""
    first, first_storage = log_reads(dataset.subset(np.arange(20)), tmp_path / "first")
    second, second_storage = log_reads(dataset.subset(np.arange(15, 40)), tmp_path / "second")
    for expected in (2 * 20 + 25, 0):
        store = open_lite_store(tmp_path / "cache", model)
        requests = [ViewRequest(first, augmented_views(ROTATED, preprocessing, 2)), ViewRequest(second, view)]
        assert fill(store, requests, workers) == expected
        assert first_storage.take_counts() == dict.fromkeys(range(20), 1)
        assert second_storage.take_counts() == dict.fromkeys(range(25), 1)
        assert min(store.rows([key for request in requests for key in request.all_keys()])) >= 0


@dataclass(frozen=True)
class VanishingFiles(FileStorage):
    """Removes each file after it was read."""

    def content(self, i: int) -> bytes:
        content = super().content(i)
        Path(self.paths[i]).unlink()
        return content


@pytest.mark.parametrize("workers", [0, 2])
def test_files_are_not_needed_after_they_were_read(model, view, tmp_path, workers):
    write_photographs(tmp_path / "images", 6)
    found = read_unlabeled_folder(tmp_path / "images")
    vanishing = replace(found, storage=VanishingFiles(found.storage.paths))
    cached = cache_dataset(open_lite_store(tmp_path / "cache", model), vanishing, view, workers)
    assert not list((tmp_path / "images").rglob("*.png"))
    assert cached.unreadable == {}
    assert cached.rows.min() >= 0


@dataclass(frozen=True)
class ChangingStorage:
    """Every read returns other pixels."""

    reads: list[int]

    def content(self, i: int) -> bytes:
        self.reads.append(i)
        return bytes([len(self.reads)] * 3) + photograph_crops(1, 64, seed=len(self.reads)).numpy().tobytes()

    def decode(self, i: int, content: bytes) -> Image.Image:
        return Image.fromarray(np.moveaxis(np.frombuffer(content[3:], np.uint8).reshape(3, 64, 64), 0, -1))


def test_features_of_an_image_that_changes_are_stored_under_the_content_they_show(model, dataset, view, tmp_path):
    one = replace(dataset.subset(np.arange(1)), storage=ChangingStorage([]))
    store = open_lite_store(tmp_path, model, precision="float32")
    request = ViewRequest(one, view)
    assert fill(store, [request], 0) == 1
    first = ChangingStorage([]).content(0)
    assert request.digests == [digest_content(first)]
    compute = FeatureComputer(model.tokenizer, store.preprocessing)
    expected = compute(view.render(one.storage.decode(0, first), b"", [0])[0][None])
    (block,) = store.features.values()
    assert block["features"].equal(expected)


# -- shared work -------------------------------------------------------------------------------------------------------


def test_worker_processes_compute_the_same_rows(model, dataset, view, tmp_path):
    stores = [open_lite_store(tmp_path / str(workers), model) for workers in (0, 2)]
    rows = [cache_rows(store, dataset, view, workers)[0] for store, workers in zip(stores, (0, 2), strict=True)]
    one, two = (store.tokens(numbers).x for store, numbers in zip(stores, rows, strict=True))
    assert torch.equal(one, two)
    assert not torch.equal(one[0], one[1])


def test_shares_of_several_processes_add_up(model, dataset, view, tmp_path):
    counts = []
    for rank in (0, 1, 2):  # each finds what the previous ones have written
        store = open_lite_store(tmp_path, model)
        counts.append(fill(store, [ViewRequest(dataset, view)], 0, rank, 3))
    assert sum(counts) == 48
    assert min(counts) > 0
    _, computed = cache_rows(store := open_lite_store(tmp_path, model), dataset, view)
    assert computed == 0
    assert sum(len(block["keys"]) for block in store.features.values()) == 48


def test_an_image_that_occurs_twice_is_computed_once(model, dataset, view, tmp_path):
    rows, computed = cache_rows(open_lite_store(tmp_path, model), dataset.subset(np.array([3, 1, 3, 3])), view)
    assert computed == 2
    assert rows[0] == rows[2] == rows[3] != rows[1]


def test_more_views_than_fit_into_one_pass_of_the_stem(model, dataset, preprocessing, tmp_path):
    views = rotated_views(preprocessing, [Rotation(float(angle), "black") for angle in range(35)])
    store = open_lite_store(tmp_path, model, precision="float32")
    rows, computed = cache_rows(store, dataset.subset(np.arange(2)), views)
    assert computed == 70
    assert sorted(rows) == list(range(70))
    compute = FeatureComputer(model.tokenizer, preprocessing)
    expected = compute(views.render(dataset.open(1), b"", [34])[0][None])
    assert store.tokens(rows[-1:]).x.equal(expected)


def test_features_have_the_same_bits_whatever_views_are_computed_with_them():
    """At 128 px, where the stem processes 16 images at a time: 30 views would end in a group of 8."""
    model = lite_model()
    compute = FeatureComputer(model.tokenizer, default_preprocessing(model, 128))
    pixels = photograph_crops(30, 128).round().byte()
    together = compute(pixels)
    assert together[[0, 17, 29]].equal(torch.cat([compute(pixels[i : i + 1]) for i in (0, 17, 29)]))
    assert together.equal(torch.cat([compute(some) for some in pixels.split(7)]))


# -- only what is missing ----------------------------------------------------------------------------------------------


def test_only_changed_images_and_new_views_are_computed(model, pack, dataset, preprocessing, tmp_path):
    def computed(images, views, **options) -> int:
        return cache_rows(open_lite_store(tmp_path, model, **options), images, views)[1]

    views = augmented_views(ROTATED, preprocessing, 2)
    assert computed(dataset, views) == 96
    with np.load(pack) as stored:
        arrays = dict(stored)
    arrays["x_train"][5, 10, 10, 0] ^= 1  # one bit of one pixel
    np.savez(tmp_path / "changed.npz", **arrays)
    changed = read_npz(tmp_path / "changed.npz")["train"]
    assert computed(changed, views) == 2
    assert computed(changed.subset(np.arange(40)), views) == 0
    assert computed(dataset, augmented_views(ROTATED, preprocessing, 3)) == 48
    same_pixels = replace(ROTATED, rotation=45.0, hflip=0.5, smoothing=0.0)
    assert computed(dataset, augmented_views(same_pixels, preprocessing, 2)) == 0
    assert computed(dataset, augmented_views(replace(ROTATED, rotation=30), preprocessing, 1)) == 48
    assert computed(dataset.subset(np.arange(3)), views, precision="float32") == 6


@pytest.mark.parametrize("workers", [0, 2])
def test_unreadable_images_get_no_rows(model, view, tmp_path, workers):
    write_photographs(tmp_path / "images", 4)
    (tmp_path / "images" / "even" / "00.png").write_bytes(b"no image")  # can be read but not decoded
    dataset = make_unreadable(read_unlabeled_folder(tmp_path / "images"), 2)
    store, request = open_lite_store(tmp_path / "cache", model), ViewRequest(dataset, view)
    assert fill(store, [request], workers) == 2
    assert [digest is None for digest in request.digests] == [False, False, True, False]
    assert [store.rows(request.keys(i)) for i in range(4)] == [[-1], [0], [], [1]]


def test_ctrl_c_keeps_what_was_computed(model, dataset, view, tmp_path):
    def interrupt_at_first(items, description, total):
        os.kill(os.getpid(), signal.SIGINT)
        yield from items

    store = open_lite_store(tmp_path, model)
    store.progress = interrupt_at_first
    with pytest.raises(Interrupted, match="computed features are kept: run the command again to resume") as stopped:
        fill(store, [ViewRequest(dataset, view)], 0)
    assert stopped.value.exit_code == 128 + signal.SIGINT
    assert cache_rows(open_lite_store(tmp_path, model), dataset, view)[1] == 48 - 32


def test_the_time_is_estimated_from_the_first_views_and_only_if_views_are_missing(
    model, dataset, view, tmp_path, monkeypatch
):
    module = import_module("spectral_vmamba.features.fill")
    monkeypatch.setattr(module, "Estimate", partial(Estimate, probe_seconds=0.0))
    requests = [ViewRequest(dataset, view)]
    first, second = NoteReporter(), NoteReporter()
    fill(open_lite_store(tmp_path, model, first), requests, 0)
    assert re.fullmatch(r"features of about 48 views: about \d+ s", first.notes[-1])
    fill(open_lite_store(tmp_path, model, second), requests, 0)
    assert len(second.notes) == 1
    assert "48 stored" in second.notes[0]


# -- disk space --------------------------------------------------------------------------------------------------------


def test_the_announced_size_is_that_on_disk(model, dataset, view, tmp_path):
    reporter = NoteReporter()
    store = open_lite_store(tmp_path, model, reporter)
    cache_rows(store, dataset, view)
    assert any("48 views requested, 0 stored; 3.82 kB per view" in note for note in reporter.notes)
    stored = sum(file.stat().st_size for file in tmp_path.glob("**/*.safetensors"))
    assert (store.feature_bytes + store.order_bytes) * 48 == pytest.approx(stored, rel=0.02)  # measured: 0.004
    other_graph = open_lite_store(tmp_path, lite_model(neighbors=None), reporter)
    assert cache_rows(other_graph, dataset, view)[1] == 0
    assert "48 views requested, 48 stored" in reporter.notes[-1]


def test_a_disk_that_is_too_small_is_noticed_before_work_starts(model, dataset, view, tmp_path):
    with small_disk(tmp_path, "size=64k") as disk:
        store = open_lite_store(disk, model)
        with pytest.raises(OSError, match=r"needs 0\.18 MB, but only 6\S+ kB are free in .* choose another"):
            cache_rows(store, dataset, view)
        assert store.features == {}


def test_a_full_disk_does_not_stop_a_run_that_needs_no_space(model, dataset, view, tmp_path):
    with small_disk(tmp_path) as disk:
        cache_rows(open_lite_store(disk, model), dataset, view)
        store = open_lite_store(disk, model)
        fill_disk(disk, leave=2**13)
        assert cache_rows(store, dataset, view)[1] == 0
