"""Measuring networks that share a frozen stem: what it says about every turned picture is computed once for all."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from spectral_vmamba.analysis.sweep import Fill, Sweep, gathered_sweep
from spectral_vmamba.data.pictures import Pictures
from spectral_vmamba.engine.answers import Answers, answers
from spectral_vmamba.engine.cache.features import FeatureCache
from spectral_vmamba.engine.cache.filling import fill, request_views
from spectral_vmamba.engine.cache.kept import Kept, TokenBatch
from spectral_vmamba.engine.cache.views import Views, plain_view, turned_views


def kept_views(cache: FeatureCache, pictures: Pictures, views: Views, workers: int) -> Kept:
    """Filled where need be."""
    request = request_views(pictures, views, cache)
    fill(cache, [request], workers)
    cache.order(request.all_keys())
    return Kept.of(cache, request)


@dataclass(frozen=True, eq=False)
class KeptPictures:
    """Measuring by what a cache keeps of the pictures: the same figures, within its precision."""

    name: str
    model: nn.Module
    pictures: Pictures
    cache: FeatureCache
    workers: int
    device: torch.device

    def answers(self, batch_size: int) -> Answers:
        kept = kept_views(self.cache, self.pictures, plain_view(self.cache.preprocessing), self.workers)
        inputs = partial(TokenBatch.tokens_on, device=self.device)
        return answers(self.model, self.pictures, kept.batches(batch_size), inputs, self.device)

    def sweep(self, angles: Sequence[float], corners: Fill, batch_size: int) -> Sweep:
        views = turned_views(self.cache.preprocessing, angles, corners)
        kept = kept_views(self.cache, self.pictures, views, self.workers)
        self.model.eval()
        batches = ((partial(self._said, kept, list(angles), batch), batch.labels) for batch in kept.batches(batch_size))
        return gathered_sweep(self.name, batches, angles, corners)

    def _said(self, kept: Kept, angles: list[float], upright: TokenBatch, angle: float) -> Tensor:
        view = angles.index(angle)
        turned = kept.batch(upright.pictures, [view] * len(upright.pictures), [])
        with torch.inference_mode():
            return self.model(turned.tokens_on(self.device)).float().softmax(1)
