"""Batches of tokens from a feature store, in place of batches of pixels."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.loader import Batch, split_into_batches
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.features.cached_views import ViewSet
from spectral_vmamba.features.feature_store import FeatureStore
from spectral_vmamba.features.fill import ViewRequest, fill


@dataclass(frozen=True, eq=False)
class CachedDataset:
    """The store's row for each view of each image; −1 for unreadable images, listed in `unreadable` by index."""

    store: FeatureStore
    dataset: ImageDataset
    rows: Int[np.ndarray, "images views"]
    unreadable: dict[int, ReadError]

    @classmethod
    def from_request(cls, store: FeatureStore, request: ViewRequest) -> "CachedDataset":
        """Look up the rows of a filled request. Raises OSError if a readable image has none."""
        missing = [-1] * len(request.views.names)
        rows = [store.rows(request.keys(i)) or missing for i in range(len(request.dataset))]
        unreadable = {}
        for i, found in enumerate(rows):
            if min(found) < 0:
                rows[i] = missing
                unreadable[i] = _read_error(store, request.dataset, i)
        if unordered := store.blocks_without_orders(request.all_keys()):
            raise _incomplete(store, f"visiting orders of block {unordered[0]}")
        return cls(store, request.dataset, np.array(rows), unreadable)

    def batch(self, indices: list[int], views: list[int], unreadable: list[ReadError]) -> Batch:
        """One view each of these images, as tokens."""
        labels = torch.from_numpy(self.dataset.labels[indices])
        return Batch(self.store.tokens(self.rows[indices, views].tolist()), labels, indices, unreadable)

    def batches(self, batch_size: int, rank: int = 0, world_size: int = 1, view: int = 0) -> Iterator[Batch]:
        """One view of every readable image, in order; this process's share of the batches."""
        for indices in split_into_batches(len(self.dataset), batch_size, rank, world_size):
            readable = [i for i in indices if i not in self.unreadable]
            if readable:
                unreadable = [self.unreadable[i] for i in indices if i in self.unreadable]
                yield self.batch(readable, [view] * len(readable), unreadable)


def cache_dataset(store: FeatureStore, dataset: ImageDataset, views: ViewSet, workers: int) -> CachedDataset:
    """Fill the store where needed, and return the dataset's rows."""
    request = ViewRequest(dataset, views)
    fill(store, [request], workers)
    store.compute_orders(request.all_keys())
    return CachedDataset.from_request(store, request)


def _read_error(store: FeatureStore, dataset: ImageDataset, i: int) -> ReadError:
    try:
        dataset.open(i)
    except (ValueError, OSError) as error:
        return ReadError.from_exception(i, dataset.names[i], error)
    raise _incomplete(store, f"features of {dataset.names[i]}")


def _incomplete(store: FeatureStore, missing: str) -> OSError:
    return OSError(
        f"the {missing} are missing from the feature cache {store.folder} although they were requested. Either the "
        "image changed during the run, or the processes of this run do not share this folder: run it again, with "
        "--cache-folder on a disk that all processes can access"
    )
