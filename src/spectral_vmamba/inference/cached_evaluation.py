"""Measuring networks that share a frozen stem: what it says about every turned image is computed once for all."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.features.cached_dataset import CachedDataset, TokenBatch
from spectral_vmamba.features.cached_views import Views, plain_view, turned_views
from spectral_vmamba.features.feature_store import FeatureCache
from spectral_vmamba.features.fill import fill, request_views
from spectral_vmamba.inference.logits import Answers, answers
from spectral_vmamba.metrics.rotation import Fill, Sweep, gathered_sweep


def kept_views(cache: FeatureCache, images: ImageDataset, views: Views, workers: int) -> CachedDataset:
    """Filled where need be."""
    request = request_views(images, views, cache)
    fill(cache, [request], workers)
    cache.order(request.all_keys())
    return CachedDataset.of(cache, request)


@dataclass(frozen=True, eq=False)
class CachedEvaluator:
    """Measuring by what a cache keeps of the images: the same figures, within its precision."""

    name: str
    model: nn.Module
    images: ImageDataset
    cache: FeatureCache
    workers: int
    device: torch.device

    def answers(self, batch_size: int) -> Answers:
        kept = kept_views(self.cache, self.images, plain_view(self.cache.preprocessing), self.workers)
        inputs = partial(TokenBatch.tokens_on, device=self.device)
        return answers(self.model, self.images, kept.batches(batch_size), inputs, self.device)

    def sweep(self, angles: Sequence[float], corners: Fill, batch_size: int) -> Sweep:
        views = turned_views(self.cache.preprocessing, angles, corners)
        kept = kept_views(self.cache, self.images, views, self.workers)
        self.model.eval()
        batches = ((partial(self._said, kept, list(angles), batch), batch.labels) for batch in kept.batches(batch_size))
        return gathered_sweep(self.name, batches, angles, corners)

    def _said(self, kept: CachedDataset, angles: list[float], upright: TokenBatch, angle: float) -> Tensor:
        view = angles.index(angle)
        turned = kept.batch(upright.images, [view] * len(upright.images), [])
        with torch.inference_mode():
            return self.model(turned.tokens_on(self.device)).float().softmax(1)
