"""Evaluate from cached features: networks that share a frozen stem share its features of every rotated image."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.loader import Batch
from spectral_vmamba.features import FeatureStore, cache_dataset, rotated_views
from spectral_vmamba.models.tokens import Inputs
from spectral_vmamba.ops.turns import Rotation


@dataclass(frozen=True, eq=False)
class CachedEvaluator:
    """Inputs of networks from the cache: the same numbers as from pixels, within the precision of the cache.

    Missing features of all `rotations` are computed first, and each image file is read once for all of them.
    """

    dataset: ImageDataset
    store: FeatureStore
    workers: int
    device: torch.device
    rotations: Sequence[Rotation]

    def rotated_batches(self, batch_size: int) -> Iterator[tuple[Batch, Callable[[Rotation], Inputs]]]:
        """As `PixelEvaluator.rotated_batches`, for the rotations of this evaluator."""
        views = rotated_views(self.store.preprocessing, self.rotations)
        cached = cache_dataset(self.store, self.dataset, views, self.workers)
        number = {rotation: i for i, rotation in enumerate(self.rotations)}
        nothing: list[int] = []
        yield Batch(None, torch.tensor(nothing), nothing, list(cached.unreadable.values())), _no_inputs
        for batch in cached.batches(batch_size):

            def inputs(rotation: Rotation, indices: list[int] = batch.indices) -> Inputs:
                view = [number[rotation]] * len(indices)
                return cached.batch(indices, view, []).inputs.to(self.device)

            yield Batch(None, batch.labels, batch.indices, []), inputs


def _no_inputs(rotation: Rotation) -> Inputs:
    raise ValueError("a batch without readable images has no inputs")
