"""Batches for training and validation: of pixels, or of cached features."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.loader import Batch, TrainSamples, eval_batches, load_batches, no_readable_image
from spectral_vmamba.data.order import ViewIndex
from spectral_vmamba.data.seeding import preserve_generators
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.features import (
    CachedDataset,
    FeatureStore,
    ViewRequest,
    augmented_views,
    default_cache_folder,
    eval_view,
    fill,
    frozen_tokenizer,
    open_store,
)
from spectral_vmamba.models.tokens import Inputs, Tokens
from spectral_vmamba.training.reporting import Reporter
from spectral_vmamba.training.train_config import TrainConfig

_FEW_IMAGES = 500  # reading these takes less time than starting worker processes


@runtime_checkable
class Feed(Protocol):
    """A source of batches, and how to make the model's input from one."""

    def train_batches(self, micro_batches: Iterable[list[ViewIndex]]) -> Iterator[Batch]: ...

    def val_batches(self, batch_size: int, rank: int, world_size: int) -> Iterator[Batch]: ...

    def prepare(self, batch: Batch) -> Inputs:
        """The model's input, on its device."""
        ...


@dataclass(frozen=True)
class PixelFeed:
    """Reads, decodes and augments images."""

    config: TrainConfig
    train: ImageDataset
    val: ImageDataset
    preprocessing: Preprocessing
    device: torch.device
    workers: int

    def train_batches(self, micro_batches: Iterable[list[ViewIndex]]) -> Iterator[Batch]:
        transform = self.config.augment.train_transform(self.preprocessing)
        samples = TrainSamples(self.train, transform, self.config.seed, self.config.view_count)
        return load_batches(samples, micro_batches, self.workers, pin_memory=self.device.type == "cuda")

    def val_batches(self, batch_size: int, rank: int, world_size: int) -> Iterator[Batch]:
        workers = self.workers if len(self.val) > _FEW_IMAGES else 0
        return eval_batches(self.val, self.preprocessing.eval_transform(), batch_size, workers, rank, world_size)

    def prepare(self, batch: Batch) -> Float[Tensor, "b 3 H W"]:
        pixels = batch.inputs.to(self.device, non_blocking=True)
        return normalize(pixels, self.preprocessing.mean, self.preprocessing.std)


@dataclass(frozen=True)
class CachedFeed:
    """Looks up cached features."""

    train: CachedDataset
    val: CachedDataset
    device: torch.device

    def train_batches(self, micro_batches: Iterable[list[ViewIndex]]) -> Iterator[Batch]:
        views = self.train.rows.shape[1]
        for keys in micro_batches:
            chosen = [self._next_readable(key.image) for key in keys]
            skipped = [error for _, errors in chosen for error in errors]
            yield self.train.batch([i for i, _ in chosen], [key.epoch % views for key in keys], skipped)

    def val_batches(self, batch_size: int, rank: int, world_size: int) -> Iterator[Batch]:
        return self.val.batches(batch_size, rank, world_size)

    def prepare(self, batch: Batch) -> Tokens:
        return batch.inputs.to(self.device)

    def _next_readable(self, i: int) -> tuple[int, list[ReadError]]:
        """The image, or the next readable one as in `TrainSamples`, and the unreadable ones before it."""
        count, skipped = len(self.train.dataset), []
        for offset in range(count):
            candidate = (i + offset) % count
            if candidate not in self.train.unreadable:
                return candidate, skipped
            skipped.append(self.train.unreadable[candidate])
        raise no_readable_image(self.train.dataset)


def make_cached_feed(
    config: TrainConfig,
    model: nn.Module,
    pixels: PixelFeed,
    reporter: Reporter,
    rank: int,
    world_size: int,
    wait: Callable[[], None],
) -> CachedFeed:
    """Fill the feature cache, each process its share, and return a feed of it. `wait` is a barrier."""
    preprocessing, folder = pixels.preprocessing, default_cache_folder(config.cache_folder)
    store = open_store(
        folder, frozen_tokenizer(model), preprocessing, config.cache_precision, reporter.note, reporter.track
    )
    train = ViewRequest(pixels.train, augmented_views(config.augment, preprocessing, config.view_count))
    val = ViewRequest(pixels.val, eval_view(preprocessing))
    with preserve_generators():  # views draw from them
        fill(store, (train, val), pixels.workers, rank, world_size)
    _synchronize(store, world_size, wait)
    store.compute_orders((*train.all_keys(), *val.all_keys()), rank, world_size)
    _synchronize(store, world_size, wait)
    return CachedFeed(CachedDataset.from_request(store, train), CachedDataset.from_request(store, val), pixels.device)


def _synchronize(store: FeatureStore, world_size: int, wait: Callable[[], None]) -> None:
    """Wait until all processes have written, then load what they wrote."""
    if world_size > 1:
        wait()
        store.refresh()
