"""Batches of tokens from a feature store."""

import numpy as np
import pytest
import torch

from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.features import CachedDataset, ViewRequest, cache_dataset, fill, rotated_views
from spectral_vmamba.ops.turns import Rotation
from tests.support.caches import open_lite_store
from tests.support.storages import make_unreadable


def test_batches_of_one_view_in_order(model, dataset, preprocessing, tmp_path):
    views = rotated_views(preprocessing, [Rotation(angle, "black") for angle in (0.0, 30.0)])
    cached = cache_dataset(open_lite_store(tmp_path, model), dataset.subset(np.arange(10)), views, 0)
    batches = list(cached.batches(4, view=1))
    assert [batch.indices for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert torch.cat([batch.labels for batch in batches]).tolist() == dataset.labels[:10].tolist()
    assert torch.equal(batches[1].inputs.x, cached.store.tokens(cached.rows[4:8, 1].tolist()).x)
    assert not torch.equal(batches[1].inputs.x, cached.store.tokens(cached.rows[4:8, 0].tolist()).x)
    shares = [[batch.indices for batch in cached.batches(4, rank, 2)] for rank in (0, 1)]
    assert shares == [[[0, 1, 2, 3], [8, 9]], [[4, 5, 6, 7]]]


def test_unreadable_images_are_left_out_and_listed(model, dataset, view, tmp_path):
    partly = make_unreadable(dataset.subset(np.arange(8)), 1, 4, 5)
    cached = cache_dataset(open_lite_store(tmp_path, model), partly, view, 0)
    errors = {i: ReadError(i, f"crops#{i}", f"image {i} is damaged") for i in (1, 4, 5)}
    assert cached.unreadable == errors
    assert [i for i in range(8) if cached.rows[i].min() < 0] == [1, 4, 5]
    batches = list(cached.batches(2))
    assert [batch.indices for batch in batches] == [[0], [2, 3], [6, 7]]
    assert batches[0].unreadable == [errors[1]]


def test_rows_that_another_process_did_not_share_are_missed(model, dataset, view, tmp_path):
    """Two processes that do not see the same folder."""
    store, request = open_lite_store(tmp_path, model), ViewRequest(dataset, view)
    fill(store, [request], 0, rank=0, world_size=2)
    store.compute_orders(request.all_keys())
    with pytest.raises(OSError, match=r"features of crops#\d+ are missing from the feature cache .* not share this"):
        CachedDataset.from_request(store, request)
    fill(store, [request], 0, rank=1, world_size=2)
    with pytest.raises(OSError, match="visiting orders of"):
        CachedDataset.from_request(store, request)
    store.compute_orders(request.all_keys())
    assert CachedDataset.from_request(store, request).rows.min() >= 0
