"""Evaluate from cached features: networks that share a frozen stem share its features of every rotated image."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.loader import Batch
from spectral_vmamba.features import CachedDataset, FeatureStore, cache_dataset, eval_view, rotated_views
from spectral_vmamba.inference.logits import DatasetLogits, compute_logits
from spectral_vmamba.metrics.rotation import Sweep, collect_sweep
from spectral_vmamba.ops.turns import Fill


@dataclass(frozen=True, eq=False)
class CachedEvaluator:
    """Evaluates on cached features: the same numbers as on pixels, within the precision of the cache."""

    name: str
    model: nn.Module
    dataset: ImageDataset
    store: FeatureStore
    workers: int
    device: torch.device

    def logits(self, batch_size: int) -> DatasetLogits:
        cached = cache_dataset(self.store, self.dataset, eval_view(self.store.preprocessing), self.workers)
        batches = cached.batches(batch_size)
        outputs = compute_logits(
            self.model, self.dataset, batches, lambda batch: batch.inputs.to(self.device), self.device
        )
        return DatasetLogits(outputs.logits, outputs.labels, list(cached.unreadable.values()))

    def sweep(self, angles: Sequence[float], fill: Fill, batch_size: int) -> Sweep:
        views = rotated_views(self.store.preprocessing, angles, fill)
        cached = cache_dataset(self.store, self.dataset, views, self.workers)
        self.model.eval()
        batches = cached.batches(batch_size)
        answers = ((partial(self._probabilities, cached, list(angles), batch), batch.labels) for batch in batches)
        return collect_sweep(self.name, answers, angles, fill)

    def _probabilities(self, cached: CachedDataset, angles: list[float], upright: Batch, angle: float) -> Tensor:
        view = angles.index(angle)
        rotated = cached.batch(upright.indices, [view] * len(upright), [])
        with torch.inference_mode():
            return self.model(rotated.inputs.to(self.device)).float().softmax(1)
