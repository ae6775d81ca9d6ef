"""Compare a classifier's outputs on changed images with those on the images as they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.file_changes import FileChange, change_files
from spectral_vmamba.data.loader import Batch, eval_batches
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.inference.predictor import Predictor
from spectral_vmamba.metrics.rotation import OutputChange
from spectral_vmamba.ops.turns import turn
from spectral_vmamba.utils.progress import Progress


@dataclass(frozen=True)
class ImageChange:
    """A change of the decoded image, before preprocessing, and quarter turns of the preprocessed one."""

    file: FileChange | None = None
    quarters: tuple[int, ...] = (0,)


@dataclass(frozen=True, eq=False)
class OutputComparison:
    """A classifier and images. The images are in the same batches every time, so that equal inputs give equal bits.

    `reference` is the change of the images that all others are compared with: by default, none.
    """

    predictor: Predictor
    dataset: ImageDataset
    batch_size: int
    workers: int
    progress: Progress
    reference: FileChange | None = None

    @property
    def unreadable(self) -> list[ReadError]:
        return self._reference_outputs[1]

    def measure(self, description: str, changes: Sequence[ImageChange]) -> OutputChange:
        """Compare the probabilities under all of the changes with those of the reference."""
        total, expected = OutputChange(), self._reference_outputs[0]
        for number, change in enumerate(changes, 1):
            part = f", {number} of {len(changes)}" if len(changes) > 1 else ""
            for batch in self._batches(description + part, change.file):
                if not batch.indices:
                    continue
                before = torch.stack([expected[i] for i in batch.indices])
                for quarters in change.quarters:
                    total.add(before, self.predictor.probabilities(turn(batch.inputs, quarters)).cpu())
        return total

    @cached_property
    def _reference_outputs(self) -> tuple[dict[int, Float[Tensor, "classes"]], list[ReadError]]:
        """The probabilities of each readable image, and the unreadable images."""
        outputs: dict[int, Tensor] = {}
        unreadable: list[ReadError] = []
        for batch in self._batches("original images", self.reference):
            unreadable += batch.unreadable
            if batch.indices:
                probabilities = self.predictor.probabilities(turn(batch.inputs, 0)).cpu()
                outputs |= dict(zip(batch.indices, probabilities, strict=True))
        return outputs, unreadable

    def _batches(self, description: str, change: FileChange | None) -> Iterator[Batch]:
        dataset = self.dataset if change is None else change_files(self.dataset, change)
        transform = self.predictor.preprocessing.eval_transform()
        batches = eval_batches(dataset, transform, self.batch_size, self.workers)
        yield from self.progress(batches, description, -(-len(dataset) // self.batch_size))
