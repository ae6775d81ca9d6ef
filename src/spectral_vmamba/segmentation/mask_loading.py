"""Load images with their masks as tensors or as ReadErrors, and make batches of the results."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import UInt8
from torch import Tensor
from torch.utils.data import Dataset

from spectral_vmamba.data.decode import image_to_tensor
from spectral_vmamba.data.loader import load_batches, stack_pixels
from spectral_vmamba.data.order import ViewIndex
from spectral_vmamba.data.seeding import IMAGE, reseed
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.segmentation.augmentation import MaskTransform
from spectral_vmamba.segmentation.masked_dataset import MaskedDataset
from spectral_vmamba.utils.wording import plural


@dataclass(frozen=True)
class MaskedSample:
    """Pixels of an image, 0 to 255, and their class ids; `skipped` are unreadable images that it replaces."""

    index: int
    pixels: UInt8[Tensor, "3 h w"]
    mask: UInt8[Tensor, "h w"]
    skipped: tuple[ReadError, ...] = ()


@dataclass(frozen=True)
class MaskedBatch:
    """Views of equal size, pixels 0 to 255, with the class ids of their pixels.

    `indices` are those of the images in their dataset. `unreadable` lists images that should have been in the batch.
    """

    inputs: UInt8[Tensor, "b 3 h w"]
    masks: UInt8[Tensor, "b h w"]
    indices: list[int]
    unreadable: list[ReadError]

    def __len__(self) -> int:
        return len(self.indices)

    def pin_memory(self) -> "MaskedBatch":
        return replace(self, inputs=self.inputs.pin_memory(), masks=self.masks.pin_memory())


def collate_pairs(samples: Sequence[MaskedSample]) -> MaskedBatch:
    return MaskedBatch(
        stack_pixels([sample.pixels for sample in samples]),
        torch.stack([sample.mask for sample in samples]) if samples else torch.empty(0, 0, 0, dtype=torch.uint8),
        [sample.index for sample in samples],
        [error for sample in samples for error in sample.skipped],
    )


class TrainPairs(Dataset):
    """ViewIndex → augmented view and mask: the same for the same seed, epoch and image. Reseeds the global generators.

    An unreadable image or mask is replaced by the next readable pair.
    """

    def __init__(self, dataset: MaskedDataset, transform: MaskTransform, seed: int):
        self.dataset, self.transform, self.seed = dataset, transform, seed

    def __getitem__(self, key: ViewIndex) -> MaskedSample:
        skipped: list[ReadError] = []
        for offset in range(len(self.dataset)):
            i = (key.image + offset) % len(self.dataset)
            try:
                image, mask = self.dataset.open(i)
            except (ValueError, OSError) as error:
                skipped.append(ReadError.from_exception(i, self.dataset.names[i], error))
                continue
            reseed(IMAGE, self.seed, key.epoch, i)
            return MaskedSample(i, *self.transform(image, mask), skipped=tuple(skipped))
        count = plural(len(self.dataset), "image")
        raise ValueError(f"none of the {count} can be used with its mask, for example: {skipped[0].reason}")


class EvalPairs(Dataset):
    """Index → the whole image and its mask."""

    def __init__(self, dataset: MaskedDataset):
        self.dataset = dataset

    def __getitem__(self, key: int) -> MaskedSample | ReadError:
        try:
            image, mask = self.dataset.open(key)
        except (ValueError, OSError) as error:
            return ReadError.from_exception(key, self.dataset.names[key], error)
        return MaskedSample(key, image_to_tensor(image), torch.from_numpy(mask))


def train_pair_batches(
    dataset: MaskedDataset,
    transform: MaskTransform,
    seed: int,
    micro_batches: Iterable[Sequence[ViewIndex]],
    workers: int,
    pin_memory: bool = False,
) -> Iterator[MaskedBatch]:
    """Load batches of augmented views in order, ahead of time in `workers` processes."""
    return load_batches(TrainPairs(dataset, transform, seed), micro_batches, workers, pin_memory, collate_pairs)


def eval_pairs(
    dataset: MaskedDataset, workers: int, rank: int = 0, world_size: int = 1
) -> Iterator[MaskedSample | ReadError]:
    """Load whole images with their masks, one by one in order; every `world_size`-th from `rank` on."""
    indices = range(rank, len(dataset), world_size)
    return load_batches(EvalPairs(dataset), ([i] for i in indices), workers, collate=_take_only)


def _take_only(samples: Sequence[MaskedSample | ReadError]) -> MaskedSample | ReadError:
    (sample,) = samples
    return sample
