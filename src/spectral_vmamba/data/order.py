"""Which images each training step sees: a function of (seed, epoch), so that a run can start at any step."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from spectral_vmamba.data.seeding import ORDER


@dataclass(frozen=True)
class ViewIndex:
    """The view of an image that an epoch shows."""

    epoch: int
    image: int


@dataclass(frozen=True)
class TrainingOrder:
    """Each epoch is a new shuffle in whole batches; the remainder is dropped. Fewer images than a batch make one
    smaller batch."""

    images: int
    batch_size: int
    seed: int

    @property
    def steps_per_epoch(self) -> int:
        return max(self.images // self.batch_size, 1)

    def shuffle(self, epoch: int) -> Int[np.ndarray, "n"]:
        return np.random.default_rng([ORDER, self.seed, epoch]).permutation(self.images)

    def micro_batches(
        self, first_step: int, last_step: int, accumulate: int, rank: int, world_size: int
    ) -> Iterator[list[ViewIndex]]:
        """For each step from `first_step` to before `last_step`, `accumulate` micro-batches; of each, the share of
        process `rank`. The union over micro-batches and processes is the same for any `accumulate` and `world_size`."""
        epoch, shuffled = -1, np.empty(0, dtype=np.int64)
        for step in range(first_step, last_step):
            if step // self.steps_per_epoch != epoch:
                epoch = step // self.steps_per_epoch
                shuffled = self.shuffle(epoch)
            start = step % self.steps_per_epoch * self.batch_size
            for part in np.array_split(shuffled[start : start + self.batch_size], accumulate):
                yield [ViewIndex(epoch, int(i)) for i in np.array_split(part, world_size)[rank]]


def with_second_views(micro_batches: Iterable[list[ViewIndex]], offset: int) -> Iterator[list[ViewIndex]]:
    """Append to each micro-batch another view of each of its images, that of the epoch `offset` later."""
    for keys in micro_batches:
        yield [*keys, *(ViewIndex(key.epoch + offset, key.image) for key in keys)]
