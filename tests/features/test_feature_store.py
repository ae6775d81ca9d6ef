"""The feature store: tokens equal the tokenizer's, damage is noticed, and other settings are other rows."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from spectral_vmamba.data.decode import normalize
from spectral_vmamba.features import FeatureStore, default_cache_folder, frozen_tokenizer, rotated_views
from spectral_vmamba.features.cached_views import KEY_BYTES
from spectral_vmamba.inference.network import build_classifier, default_preprocessing
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.traversal import Traversal
from spectral_vmamba.ops.turns import Rotation
from spectral_vmamba.utils.progress import no_progress
from tests.support.caches import SIZE, cache_rows, lite_model, open_lite_store
from tests.support.runs import NoteReporter


@pytest.mark.parametrize("traversal", ["spectral", "cross", "random"])
def test_tokens_equal_those_of_the_tokenizer(dataset, tmp_path, traversal):
    model = lite_model(traversal=traversal, domain="disk")
    preprocessing = default_preprocessing(model, SIZE)
    store = open_lite_store(tmp_path, model, precision="float32")
    views = rotated_views(preprocessing, [Rotation(angle, "black") for angle in (0.0, 30.0)])
    some = dataset.subset(np.arange(16))
    rows, _ = cache_rows(store, some, views)
    pixels = torch.stack([view for i in range(16) for view in views.render(some.open(i), b"", range(2))])
    with torch.no_grad():
        expected = model.tokenizer(normalize(pixels, preprocessing.mean, preprocessing.std))
    tokens = store.tokens(rows)
    assert torch.equal(tokens.x, expected.x)
    assert torch.equal(tokens.traversal.orders, expected.traversal.orders)
    assert torch.equal(tokens.traversal.ranks, expected.traversal.ranks)
    assert torch.equal(tokens.traversal.content, expected.traversal.content)
    assert tokens.traversal.grid == expected.traversal.grid
    with torch.no_grad():
        assert torch.equal(model(tokens), model(expected))


@pytest.mark.parametrize("side", [181, 182])
def test_orders_of_more_tokens_than_int16_can_number(model, preprocessing, tmp_path, monkeypatch, side):
    """Random orders of 32,761 and of 33,124 tokens: eigenvectors of so many would take minutes."""
    grid, key = Grid(side, side), bytes(KEY_BYTES)
    tokens = side * side
    ranks = torch.stack([torch.randperm(tokens) for _ in range(2)])[None]
    expected = Traversal.from_ranks(grid, ranks, ranks[:, 0])
    monkeypatch.setattr(model.tokenizer, "traverse", lambda *_: expected)
    store = FeatureStore(tmp_path, model.tokenizer, preprocessing, torch.float16, grid, 1, print, no_progress)
    store.add([key], torch.zeros(1, tokens, 1))
    store.compute_orders([key])
    found = store.tokens([0]).traversal
    assert torch.equal(found.orders, expected.orders)
    assert torch.equal(found.ranks, expected.ranks)
    assert torch.equal(found.content, expected.content)
    (file,) = tmp_path.glob("orders-*/*.safetensors")
    stored = sum(part.nbytes for part in load_file(file).values())
    per_row = 3 * model.tokenizer.config.eigenvectors + 1
    assert stored * per_row == store.order_bytes * (3 * 2 + 1)


@pytest.mark.parametrize("part", ["features", "orders"])
@pytest.mark.parametrize("damage", ["truncated", "corrupted", "emptied", "header", "shape"])
def test_damaged_files_are_noticed_and_computed_again(model, dataset, view, tmp_path, part, damage):
    some = dataset.subset(np.arange(6))
    rows, _ = cache_rows(store := open_lite_store(tmp_path, model), some, view)
    tokens = store.tokens(rows)
    x, orders = tokens.x.clone(), tokens.traversal.orders.clone()
    (file,) = tmp_path.glob(f"*/{part}*/*.safetensors")
    intact = file.read_bytes()
    middle = len(intact) - 100
    damaged = {
        "truncated": intact[:-7],
        "corrupted": intact[:middle] + bytes([intact[middle] ^ 1]) + intact[middle + 1 :],
        "emptied": b"",
        "header": intact.replace(b"sha256", b"sha257", 1),
        "shape": re.sub(rb"\[6,(\d+),(\d+)\]", rb"[6,\2,\1]", intact, count=1),
    }
    assert damaged[damage] != intact
    file.write_bytes(damaged[damage])
    reporter = NoteReporter()
    rows, computed = cache_rows(store := open_lite_store(tmp_path, model, reporter), some, view)
    assert computed == (6 if part == "features" else 0)
    assert any("damaged" in note and "it will be computed again" in note for note in reporter.notes)
    assert torch.equal(store.tokens(rows).x, x)
    assert torch.equal(store.tokens(rows).traversal.orders, orders)
    assert len(list(tmp_path.glob("*/*/*.safetensors"))) == 2, "orders of the damaged features are removed too"


def test_other_graphs_share_the_features_and_other_stems_do_not(model, dataset, view, tmp_path):
    rows, _ = cache_rows(open_lite_store(tmp_path, model), dataset, view)
    before = open_lite_store(tmp_path, model).tokens(rows).traversal
    dense = lite_model(neighbors=None)
    same_rows, computed = cache_rows(store := open_lite_store(tmp_path, dense), dataset, view)
    assert computed == 0
    assert not torch.equal(store.tokens(same_rows).traversal.orders, before.orders)
    without_rotations = lite_model(turns=1)
    assert cache_rows(open_lite_store(tmp_path, without_rotations), dataset.subset(np.arange(2)), view)[1] == 2


def test_the_folder_describes_itself(model, tmp_path):
    store = open_lite_store(tmp_path, model)
    text = (store.folder / "description.json").read_text()
    assert all(f'"{name}"' in text for name in ("stem_weights", "preprocessing", "precision", "versions"))


def test_features_beyond_half_precision_are_rejected(model, tmp_path):
    store = open_lite_store(tmp_path, model)
    features = torch.full((1, len(store.grid.cells()), store.channels), 7e4)
    with pytest.raises(ValueError, match=r"too large for torch.float16; use --cache-precision float32"):
        store.add([bytes(16)], features)
    with pytest.raises(ValueError, match="not finite"):
        store.add([bytes(16)], features * torch.inf)
    assert not list(tmp_path.glob("**/*.safetensors"))
    store = open_lite_store(tmp_path, model, precision="float32")
    store.add([bytes(16)], features)
    assert store.rows([bytes(16), bytes(15) + b"1"]) == [0, -1]


def test_only_frozen_stems_can_be_cached(model):
    assert frozen_tokenizer(model) is model.tokenizer
    nano = build_classifier("spectral_vmamba_nano", {"widths": (8,), "depths": (1,)}, ("a", "b"))
    lite = build_classifier("spectral_vmamba_lite", {"freeze_stem": False, "stem_weights": "none"}, ("a", "b"))
    for trainable in (nano, lite):
        with pytest.raises(
            ValueError, match="use spectral_vmamba_lite, whose stem is frozen by default, or pass --no-cache"
        ):
            frozen_tokenizer(trainable)


def test_a_cache_folder_that_cannot_be_written(model, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="cannot write to the feature cache"):
        open_lite_store(tmp_path / "file" / "x", model)


def test_the_default_folder_is_in_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_folder() == tmp_path / "spectral_vmamba" / "features"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache_folder().is_relative_to(Path.home() / ".cache")
    assert default_cache_folder("here") == Path("here").absolute()
