"""Batches from a cache, in place of batches of pixels."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.loader import in_batches
from spectral_vmamba.features.feature_store import FeatureCache
from spectral_vmamba.features.fill import Request
from spectral_vmamba.models.tokens import Tokens


@dataclass(frozen=True)
class TokenBatch:
    """Like `data.loading.Batch`, with what the tokenizer made of the views in place of these."""

    tokens: Tokens
    labels: Int[Tensor, "b"]
    images: list[int]
    broken: list[int]

    def tokens_on(self, device: torch.device) -> Tokens:
        x, traversal, _ = self.tokens
        parts = {part: getattr(traversal, part).to(device) for part in ("ranks", "content", "orders")}
        return Tokens(x.to(device), replace(traversal, **parts), None)


@dataclass(frozen=True, eq=False)
class CachedDataset:
    """Which row of a cache shows which view of which image; −1 for images that cannot be read."""

    cache: FeatureCache
    images: ImageDataset
    rows: Int[np.ndarray, "images views"]

    @classmethod
    def of(cls, cache: FeatureCache, request: Request) -> "CachedDataset":
        none = [-1] * len(request.views.names)
        rows = [cache.rows(request.keys(i)) or none for i in range(len(request.images))]
        for i, found in enumerate(rows):
            if request.keys(i) and min(found) < 0:
                rows[i] = none
                if _can_be_read(request.images, i):
                    raise _incomplete(cache, f"features of {request.images.names[i]}")
        if unordered := cache.unordered(request.all_keys()):
            raise _incomplete(cache, f"visiting orders of {unordered[0]}")
        return cls(cache, request.images, np.array(rows))

    def batch(self, images: list[int], views: list[int], broken: list[int]) -> TokenBatch:
        labels = torch.from_numpy(self.images.labels[images])
        return TokenBatch(self.cache.tokens(self.rows[images, views].tolist()), labels, images, broken)

    def has(self, i: int) -> bool:
        return bool((self.rows[i] >= 0).all())

    def batches(self, size: int, mine: int = 0, of: int = 1, view: int = 0) -> Iterator[TokenBatch]:
        """One view of every image that can be read, in order; the share of process `mine` of `of`."""
        for numbers in in_batches(len(self.images), size, mine, of):
            there = [i for i in numbers if self.has(i)]
            if there:
                yield self.batch(there, [view] * len(there), [i for i in numbers if i not in there])


def _can_be_read(images: ImageDataset, i: int) -> bool:
    try:
        images.opener(i)
    except ValueError:
        return False
    return True


def _incomplete(cache: FeatureCache, what: str) -> OSError:
    return OSError(
        f"the {what} are not in the cache {cache.folder}, though they were to be computed. Did the image change "
        "meanwhile, or do the processes of this run not share this folder? Run it again, with --cache-folder on a disk "
        "that all of them see"
    )
