"""What a run learns from and is validated on, batch by batch: pixels, or what a cache keeps of them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.loader import Batch, Key, RandomViews, load
from spectral_vmamba.data.seeding import generators_kept
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.features import (
    CachedDataset,
    FeatureCache,
    TokenBatch,
    augmented_views,
    cache_root,
    fill,
    frozen_tokenizer,
    open_cache,
    plain_view,
    request_views,
)
from spectral_vmamba.inference.logits import pixel_batches
from spectral_vmamba.models.tokens import Tokens
from spectral_vmamba.training.reporting import Reporter
from spectral_vmamba.training.train_config import TrainConfig

_FEW = 500  # images that are read sooner than processes have started to read them


class Feed(Protocol):
    def training(self, parts: Iterable[list[Key]]) -> Iterator[Batch | TokenBatch]: ...

    def validation(self, batch: int, mine: int, of: int) -> Iterable[Batch | TokenBatch]: ...

    def inputs(self, batch: Any) -> Any:
        """What the model takes of a batch of this feed, on its device."""
        ...


@dataclass(frozen=True)
class PixelFeed:
    config: TrainConfig
    train: ImageDataset
    val: ImageDataset
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
        return normalize(pixels, self.preprocessing.mean, self.preprocessing.std)


@dataclass(frozen=True)
class CacheFeed:
    train: CachedDataset
    val: CachedDataset
    device: torch.device

    def training(self, parts: Iterable[list[Key]]) -> Iterator[TokenBatch]:
        views = self.train.rows.shape[1]
        for keys in parts:
            found = [self._readable(key.image) for key in keys]
            broken = [i for _, skipped in found for i in skipped]
            yield self.train.batch([i for i, _ in found], [key.epoch % views for key in keys], broken)

    def validation(self, batch: int, mine: int, of: int) -> Iterator[TokenBatch]:
        return self.val.batches(batch, mine, of)

    def inputs(self, batch: TokenBatch) -> Tokens:
        return batch.tokens_on(self.device)

    def _readable(self, wanted: int) -> tuple[int, list[int]]:
        """The image, or the next that can be read, as `RandomViews` has it; and those that could not be read."""
        images = len(self.train.images)
        skipped: list[int] = []
        for further in range(images):
            i = (wanted + further) % images
            if self.train.has(i):
                return i, skipped
            skipped.append(i)
        raise ValueError(f"none of the {images} images can be read, {self.train.images.names[0]} for one")


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
    preprocessing, root = pixels.preprocessing, cache_root(config.cache_folder)
    cache = open_cache(
        root, frozen_tokenizer(model), preprocessing, config.cache_precision, reporter.note, reporter.track
    )
    train = request_views(pixels.train, augmented_views(config.augment, preprocessing, config.kept_views), cache)
    val = request_views(pixels.val, plain_view(preprocessing), cache)
    with generators_kept():  # views draw from them
        fill(cache, (train, val), pixels.workers, mine, of)
    _meet(cache, of, wait)
    cache.order((*train.all_keys(), *val.all_keys()), mine, of)
    _meet(cache, of, wait)
    return CacheFeed(CachedDataset.of(cache, train), CachedDataset.of(cache, val), pixels.device)


def _meet(cache: FeatureCache, processes: int, wait: Callable[[], None]) -> None:
    """All have written, then all see it."""
    if processes > 1:
        wait()
        cache.refresh()
