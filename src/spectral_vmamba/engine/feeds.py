"""What a run learns from and is validated on, batch by batch: pixels, or what a cache keeps of them."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from spectral_vmamba.data.images import normalise
from spectral_vmamba.data.loading import Batch, Key, RandomViews, in_batches, load
from spectral_vmamba.data.pictures import Pictures
from spectral_vmamba.data.views import Preprocessing
from spectral_vmamba.engine.answers import pixel_batches
from spectral_vmamba.engine.cache import FeatureCache, augmented_views, open_cache, plain_view
from spectral_vmamba.engine.cache.filling import Collection, collect, fill
from spectral_vmamba.engine.config import TrainConfig
from spectral_vmamba.engine.reporting import Reporter
from spectral_vmamba.models.spectral_vmamba import SpectralVMamba
from spectral_vmamba.models.tokens import Tokens

_FEW = 500  # pictures that are read sooner than processes have started to read them


@dataclass(frozen=True)
class TokenBatch:
    """Like `data.loading.Batch`, with what the embedding made of the views in place of these."""

    tokens: Tokens
    labels: Int[Tensor, "b"]
    pictures: list[int]
    broken: list[int]


class Feed(Protocol):
    def training(self, parts: Iterable[list[Key]]) -> Iterator[Batch | TokenBatch]: ...

    def validation(self, batch: int, mine: int, of: int) -> Iterable[Batch | TokenBatch]: ...

    def inputs(self, batch: Any) -> Any:
        """What the model takes of a batch of this feed, on its device."""
        ...


@dataclass(frozen=True)
class PixelFeed:
    config: TrainConfig
    train: Pictures
    val: Pictures
    preprocessing: Preprocessing
    device: torch.device
    workers: int

    def training(self, parts: Iterable[list[Key]]) -> Iterator[Batch]:
        config = self.config
        views = RandomViews(self.train, config.augment.view(self.preprocessing), config.seed, config.kept_views)
        return iter(load(views, parts, self.workers, pin_memory=self.device.type == "cuda"))

    def validation(self, batch: int, mine: int, of: int) -> Iterable[Batch]:
        workers = self.workers if len(self.val) > _FEW else 0
        return pixel_batches(self.val, self.preprocessing, batch, workers, mine, of)

    def inputs(self, batch: Batch) -> Float[Tensor, "b 3 H W"]:
        pixels = batch.views.to(self.device, non_blocking=True)
        return normalise(pixels, self.preprocessing.mean, self.preprocessing.std)


@dataclass(frozen=True, eq=False)
class Kept:
    """Which row of a cache shows which view of which picture; −1 for pictures that cannot be read."""

    cache: FeatureCache
    pictures: Pictures
    rows: Int[np.ndarray, "pictures views"]

    @classmethod
    def of(cls, cache: FeatureCache, collection: Collection) -> "Kept":
        count = len(collection.views.names)
        rows = [cache.rows(collection.keys(i)) or [-1] * count for i in range(len(collection.pictures))]
        return cls(cache, collection.pictures, np.array(rows))

    def batch(self, pictures: list[int], views: list[int], broken: list[int]) -> TokenBatch:
        labels = torch.from_numpy(self.pictures.labels[pictures])
        return TokenBatch(self.cache.tokens(self.rows[pictures, views].tolist()), labels, pictures, broken)

    def has(self, i: int) -> bool:
        return bool((self.rows[i] >= 0).all())


@dataclass(frozen=True)
class CacheFeed:
    train: Kept
    val: Kept
    device: torch.device

    def training(self, parts: Iterable[list[Key]]) -> Iterator[TokenBatch]:
        views = self.train.rows.shape[1]
        for keys in parts:
            found = [self._readable(key.picture) for key in keys]
            broken = [i for _, skipped in found for i in skipped]
            yield self.train.batch([i for i, _ in found], [key.epoch % views for key in keys], broken)

    def validation(self, batch: int, mine: int, of: int) -> Iterator[TokenBatch]:
        for numbers in in_batches(len(self.val.pictures), batch, mine, of):
            there = [i for i in numbers if self.val.has(i)]
            if there:
                yield self.val.batch(there, [0] * len(there), [i for i in numbers if i not in there])

    def inputs(self, batch: TokenBatch) -> Tokens:
        x, traversal, _ = batch.tokens
        parts = {part: getattr(traversal, part).to(self.device) for part in ("ranks", "content", "orders")}
        return Tokens(x.to(self.device), replace(traversal, **parts), None)

    def _readable(self, wanted: int) -> tuple[int, list[int]]:
        """The picture, or the next that can be read, as `RandomViews` has it; and those that could not be read."""
        pictures = len(self.train.pictures)
        skipped: list[int] = []
        for further in range(pictures):
            i = (wanted + further) % pictures
            if self.train.has(i):
                return i, skipped
            skipped.append(i)
        raise ValueError(f"none of the {pictures} pictures can be read, {self.train.pictures.names[0]} for one")


def cache_feed(
    config: TrainConfig,
    model: nn.Module,
    pixels: PixelFeed,
    reporter: Reporter,
    mine: int,
    of: int,
    wait: Callable[[], None],
) -> CacheFeed:
    """Fills the cache, every process its share of it."""
    if not isinstance(model, SpectralVMamba) or not model.embedding.is_fixed:
        raise ValueError(
            f"--cache keeps what a frozen stem says about pictures, and {config.model} has none that stays as it is; "
            "take spectral_vmamba_lite, or leave --cache out"
        )
    preprocessing = pixels.preprocessing
    reopened = partial(
        open_cache,
        cache_root(config),
        model.embedding,
        preprocessing,
        config.cache_precision,
        reporter.note,
        reporter.track,
    )
    cache = reopened()
    train = collect(pixels.train, augmented_views(config.augment, preprocessing, config.kept_views), cache)
    val = collect(pixels.val, plain_view(preprocessing), cache)
    fill(cache, (train, val), pixels.workers, mine, of)
    if of > 1:  # all have written, the first finds the orders, all read
        wait()
        cache = reopened()
    if mine == 0:
        cache.order()
    if of > 1:
        wait()
        cache = reopened()
    return CacheFeed(Kept.of(cache, train), Kept.of(cache, val), pixels.device)


def cache_root(config: TrainConfig) -> Path:
    if config.cache_folder:
        return Path(config.cache_folder)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "spectral_vmamba" / "features"
