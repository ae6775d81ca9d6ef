"""Logits of a model over a whole dataset, in batches, in one process or shared by several."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.loader import Batch, no_readable_image
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.models.tokens import Inputs


@dataclass(frozen=True)
class DatasetLogits:
    """Logits and labels of the readable images, in order, and the unreadable ones."""

    logits: Float[Tensor, "n classes"]
    labels: Int[Tensor, "n"]
    unreadable: list[ReadError]


def compute_logits(
    model: nn.Module,
    dataset: ImageDataset,
    batches: Iterable[Batch],
    prepare: Callable[[Batch], Inputs],
    device: torch.device,
    reduce: Callable[[Tensor], Tensor] = lambda partial: partial,
) -> DatasetLogits:
    """Run a model on all batches of this process. `prepare` makes the model's input from a batch; `reduce` sums a
    tensor over processes."""
    logits: Tensor | None = None
    readable = torch.zeros(len(dataset), dtype=torch.int64, device=device)
    errors: dict[int, ReadError] = {}
    was_training = model.training
    model.eval()
    try:
        for batch in batches:
            errors |= {error.index: error for error in batch.unreadable}
            if not batch.indices:
                continue
            rows = torch.tensor(batch.indices, device=device)
            with torch.inference_mode():
                output = model(prepare(batch)).float()
            if logits is None:
                logits = torch.zeros(len(dataset), output.shape[1], device=device)
            logits[rows] = output.clone()
            readable[rows] = 1
    finally:
        model.train(was_training)
    if logits is None:
        logits = torch.zeros(len(dataset), len(dataset.classes), device=device)
    readable, logits = reduce(readable).cpu().bool(), reduce(logits).cpu()
    if not readable.any():
        raise no_readable_image(dataset)
    unreadable = [
        errors.get(i, ReadError(i, dataset.names[i], "another process could not read it"))
        for i, is_readable in enumerate(readable.tolist())
        if not is_readable
    ]
    return DatasetLogits(logits[readable], torch.from_numpy(dataset.labels)[readable], unreadable)
