"""Load a stored image as a tensor or as a ReadError, and make batches of the results."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Int, Shaped
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from spectral_vmamba.data.dataset import UNLABELED, ImageDataset, digest_content
from spectral_vmamba.data.order import ViewIndex
from spectral_vmamba.data.seeding import IMAGE, VIEW, reseed
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.data.views import Transform, View, pose_of
from spectral_vmamba.ops.frames import Pose
from spectral_vmamba.utils.wording import at_least, plural

AnyBatch = TypeVar("AnyBatch")


@dataclass(frozen=True)
class Sample:
    """One view of an image; `width` and `height` are those of the decoded image."""

    index: int
    label: int
    view: View
    width: int
    height: int
    skipped: tuple[ReadError, ...] = ()


def load_sample(
    open_image: Callable[[], Image.Image], transform: Transform, index: int, name: str, label: int = UNLABELED
) -> Sample | ReadError:
    """Open an image and transform it; an image that cannot be opened is returned as its error."""
    try:
        image = open_image()
    except (ValueError, OSError) as error:
        return ReadError.from_exception(index, name, error)
    return Sample(index, label, transform(image), image.width, image.height)


@dataclass(frozen=True)
class Batch:
    """Inputs of a network: pixels 0 to 255, or tokens from a feature cache.

    `indices` are those of the images in their dataset. `unreadable` lists images that should have been in the batch.
    `sizes` (width, height) and `pose` (how preprocessing turned the images) come with pixels only.
    """

    inputs: Any
    labels: Int[Tensor, "b"]
    indices: list[int]
    unreadable: list[ReadError]
    sizes: list[tuple[int, int]] = field(default_factory=list)
    pose: Pose | None = None

    def __len__(self) -> int:
        return len(self.indices)

    def pin_memory(self) -> "Batch":
        return replace(self, inputs=self.inputs.pin_memory(), labels=self.labels.pin_memory())


def collate(results: Sequence[Sample | ReadError]) -> Batch:
    samples = [result for result in results if isinstance(result, Sample)]
    unreadable = [result for result in results if isinstance(result, ReadError)]
    unreadable += [error for sample in samples for error in sample.skipped]
    return Batch(
        stack_pixels([sample.view.pixels for sample in samples]),
        torch.tensor([sample.label for sample in samples], dtype=torch.int64),
        [sample.index for sample in samples],
        unreadable,
        [(sample.width, sample.height) for sample in samples],
        pose_of([sample.view for sample in samples]),
    )


def stack_pixels(pixels: Sequence[Tensor]) -> Shaped[Tensor, "b 3 H W"]:
    return torch.stack(list(pixels)) if pixels else torch.empty(0, 3, 0, 0, dtype=torch.uint8)


@runtime_checkable
class SampleReader(Protocol):
    """Maps a key to a sample or a ReadError, in any process."""

    def __getitem__(self, key: Any) -> Any: ...


class EvalSamples(Dataset):
    """Index → view, without randomness."""

    def __init__(self, dataset: ImageDataset, transform: Transform):
        self.dataset, self.transform = dataset, transform

    def __getitem__(self, key: int) -> Sample | ReadError:
        dataset, i = self.dataset, key
        return load_sample(lambda: dataset.open(i), self.transform, i, dataset.names[i], int(dataset.labels[i]))


class TrainSamples(Dataset):
    """ViewIndex → augmented view: the same for the same seed, epoch and image. Reseeds the global generators.

    An unreadable image is replaced by the next readable one. With `view_count`, each image has that many views, which
    the epochs show in turn: see `numbered_view`. With 0, each epoch shows a new one.
    """

    def __init__(self, dataset: ImageDataset, transform: Transform, seed: int, view_count: int = 0):
        self.dataset, self.transform, self.seed, self.view_count = dataset, transform, seed, view_count

    def __getitem__(self, key: ViewIndex) -> Sample:
        skipped: list[ReadError] = []
        for offset in range(len(self.dataset)):
            sample = self._load((key.image + offset) % len(self.dataset), key.epoch)
            if isinstance(sample, Sample):
                return replace(sample, skipped=tuple(skipped))
            skipped.append(sample)
        raise no_readable_image(self.dataset)

    def _load(self, i: int, epoch: int) -> Sample | ReadError:
        dataset = self.dataset
        digest = b""

        def open_image() -> Image.Image:
            nonlocal digest
            content = dataset.storage.content(i)
            digest = digest_content(content) if self.view_count else b""
            return dataset.storage.decode(i, content)

        def transform(image: Image.Image) -> View:
            if self.view_count:
                return numbered_view(self.transform, image, digest, epoch % self.view_count)
            reseed(IMAGE, self.seed, epoch, i)
            return self.transform(image)

        return load_sample(open_image, transform, i, dataset.names[i], int(dataset.labels[i]))


def numbered_view(transform: Transform, image: Image.Image, digest: bytes, number: int) -> View:
    """One of an image's augmented views. Its draws depend on the image's content and the number alone, not on the run
    or on other images, so that features computed from it can be cached."""
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, len(digest), 4)]
    reseed(VIEW, number, *words)
    return transform(image)


def no_readable_image(dataset: ImageDataset) -> ValueError:
    return ValueError(f"none of the {plural(len(dataset), 'image')} can be read, for example {dataset.names[0]}")


def load_batches(
    samples: SampleReader,
    batches: Iterable[Sequence],
    workers: int,
    pin_memory: bool = False,
    collate: Callable[[list[Any]], AnyBatch] = collate,  # pyright: ignore[reportArgumentType]
) -> Iterator[AnyBatch]:
    """Load batches of keys in order, ahead of time in `workers` processes, or with 0 on demand in this process.

    `collate` makes a batch of the samples of its keys.
    """
    at_least(0, workers=workers)
    loader = DataLoader(
        samples,  # pyright: ignore[reportArgumentType]
        batch_sampler=SinglePassSampler(batches),  # pyright: ignore[reportArgumentType]
        num_workers=workers,
        collate_fn=collate,
        pin_memory=pin_memory,
        worker_init_fn=use_one_thread,
    )
    return iter(loader)


def eval_batches(
    dataset: ImageDataset, transform: Transform, batch_size: int, workers: int, rank: int = 0, world_size: int = 1
) -> Iterator[Batch]:
    """Load the views that a network is evaluated on, in order; this process's share of the batches."""
    batches = split_into_batches(len(dataset), batch_size, rank, world_size)
    return load_batches(EvalSamples(dataset, transform), batches, workers)


class SinglePassSampler:
    """A batch sampler over an iterable that is consumed once."""

    def __init__(self, batches: Iterable[Sequence]):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


def split_into_batches(count: int, batch_size: int, rank: int = 0, world_size: int = 1) -> list[range]:
    """The indices 0 … count − 1 in batches; every `world_size`-th batch from `rank` on."""
    at_least(1, batch_size=batch_size)
    return [range(start, min(start + batch_size, count)) for start in range(0, count, batch_size)][rank::world_size]


def default_workers(world_size: int = 1) -> int:
    """One worker per CPU core that each of `world_size` processes has, at least 1 and at most 8."""
    return max(min((os.cpu_count() or 1) // world_size, 8), 1)


def use_one_thread(worker: int) -> None:
    """For worker processes, which share the cores among themselves."""
    torch.set_num_threads(1)
