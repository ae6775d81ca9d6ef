"""Batches of views, in an order that is a function of (seed, epoch): any process can begin anywhere."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, UInt8
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.seeding import IMAGE, ORDER, VIEW, reseed

View = Callable[[Image.Image], Tensor]


@dataclass(frozen=True)
class Order:
    """Which images each step takes: every epoch a new shuffle, in whole batches; what is left over waits for the
    next. Fewer images than a batch make one smaller batch."""

    images: int
    batch: int
    seed: int

    @property
    def steps_per_epoch(self) -> int:
        return max(self.images // self.batch, 1)

    def epoch_of(self, step: int) -> int:
        return step // self.steps_per_epoch

    def shuffled(self, epoch: int) -> Int[np.ndarray, "n"]:
        return np.random.default_rng([ORDER, self.seed, epoch]).permutation(self.images)

    def parts(self, first_step: int, last_step: int, parts: int, mine: int, of: int) -> Iterator[list["Key"]]:
        """For every step from the first to before the last, `parts` smaller batches one after the other; of each, the
        share that process `mine` of `of` takes. Together they are the same batch for any `parts` and `of`."""
        epoch, shuffled = -1, np.empty(0, dtype=np.int64)
        for step in range(first_step, last_step):
            if self.epoch_of(step) != epoch:
                epoch = self.epoch_of(step)
                shuffled = self.shuffled(epoch)
            start = step % self.steps_per_epoch * self.batch
            for part in np.array_split(shuffled[start : start + self.batch], parts):
                yield [Key(epoch, int(i)) for i in np.array_split(part, of)[mine]]


@dataclass(frozen=True)
class Key:
    """One view of a image."""

    epoch: int
    image: int


@dataclass(frozen=True)
class Batch:
    """Pixels 0 to 255. `images` are numbers of `ImageDataset`; `broken` those that could not be read."""

    views: UInt8[Tensor, "b 3 H W"]
    labels: Int[Tensor, "b"]
    images: list[int]
    broken: list[int]

    def pin_memory(self) -> "Batch":
        return Batch(self.views.pin_memory(), self.labels.pin_memory(), self.images, self.broken)


@dataclass(frozen=True)
class _Sample:
    view: Tensor | None
    label: int
    image: int
    broken: tuple[int, ...]


class RandomViews(Dataset):
    """Key → augmented view, the same draws for the same seed, epoch and image; the shared generators are left seeded.
    In place of a broken image comes the next that can be read. With a `count`, every image has so many views, which
    the epochs show in turn: see `numbered_view`."""

    def __init__(self, images: ImageDataset, view: View, seed: int, count: int = 0):
        self.images, self.view, self.seed, self.count = images, view, seed, count

    def __getitem__(self, key: Key) -> _Sample:
        broken = []
        for further in range(len(self.images)):
            i = (key.image + further) % len(self.images)
            try:
                image = self.images.opener(i)
            except ValueError:
                broken.append(i)
                continue
            if self.count:
                view = numbered_view(self.view, image, self.images.digest(i), key.epoch % self.count)
            else:
                reseed(IMAGE, self.seed, key.epoch, i)
                view = self.view(image)
            return _Sample(view, int(self.images.labels[i]), i, tuple(broken))
        raise ValueError(f"none of the {len(self.images)} images can be read, {self.images.names[0]} for one")


def numbered_view(view: View, image: Image.Image, digest: bytes, number: int) -> Tensor:
    """One of a image's own augmented views. Its draws follow from the image's content and the number alone, not
    from the run or from other images: what is computed from it can be kept."""
    words = np.frombuffer(digest, dtype="<u4").tolist()
    reseed(VIEW, number, *words)
    return view(image)


class FixedViews(Dataset):
    """Number → view, without randomness; nothing in place of a broken image."""

    def __init__(self, images: ImageDataset, view: View):
        self.images, self.view = images, view

    def __getitem__(self, i: int) -> _Sample:
        label = int(self.images.labels[i])
        try:
            return _Sample(self.view(self.images.opener(i)), label, i, ())
        except ValueError:
            return _Sample(None, label, i, (i,))


def _collate(samples: Sequence[_Sample]) -> Batch:
    seen = [sample for sample in samples if sample.view is not None]
    views = torch.stack([sample.view for sample in seen]) if seen else torch.empty(0, 3, 0, 0, dtype=torch.uint8)  # pyright: ignore
    labels = torch.tensor([sample.label for sample in seen], dtype=torch.int64)
    broken = [i for sample in samples for i in sample.broken]
    return Batch(views, labels, [sample.image for sample in seen], broken)


def load(views: Dataset, batches: Iterable[list], workers: int, pin_memory: bool = False) -> Iterable[Batch]:
    """The batches one after the other, prepared by so many processes ahead of time (0: by this one, when asked)."""
    return DataLoader(
        views,
        batch_sampler=_Once(batches),  # pyright: ignore[reportArgumentType]
        num_workers=workers,
        collate_fn=_collate,
        pin_memory=pin_memory,
        worker_init_fn=one_thread,
    )


class _Once:
    """A batch sampler over an iterable that is read once."""

    def __init__(self, batches: Iterable[list]):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


def usual_workers(processes: int = 1) -> int:
    """One for each of the cores that a process of so many has, eight at most."""
    return max(min((os.cpu_count() or 1) // processes, 8), 1)


def one_thread(worker: int) -> None:
    """For processes that share work among themselves: each does its part alone."""
    torch.set_num_threads(1)


def in_batches(count: int, batch: int, mine: int = 0, of: int = 1) -> list[list[int]]:
    """Numbers 0 … count − 1 in batches; of these the share of process `mine`."""
    return [list(range(start, min(start + batch, count))) for start in range(0, count, batch)][mine::of]
