"""What a model says about images: logits over a whole set, in batches, by one process or shared by several."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.loader import Batch, FixedViews, in_batches, load
from spectral_vmamba.data.transforms import Preprocessing


@dataclass(frozen=True)
class Answers:
    """Of the images that could be read; `broken` are numbers of those that could not."""

    logits: Float[Tensor, "n classes"]
    labels: Int[Tensor, "n"]
    broken: list[int]


def pixel_batches(
    images: ImageDataset, preprocessing: Preprocessing, batch: int, workers: int, mine: int = 0, of: int = 1
) -> Iterable[Batch]:
    """What the model sees of the images, 0 to 255, in order; the share of process `mine` of `of`."""
    return load(FixedViews(images, preprocessing.pixels()), in_batches(len(images), batch, mine, of), workers)


def answers(
    model: nn.Module,
    images: ImageDataset,
    batches: Iterable[Any],
    inputs: Callable[[Any], Any],
    device: torch.device,
    total: Callable[[Tensor], Tensor] = lambda partial: partial,
) -> Answers:
    """Every process answers its batches; `total` sums a tensor over them. `inputs` makes what the model takes."""
    logits: Tensor | None = None
    seen = torch.zeros(len(images), dtype=torch.int64, device=device)
    was_training = model.training
    model.eval()
    try:
        for each in batches:
            if not each.images:
                continue
            rows = torch.tensor(each.images, device=device)
            with torch.inference_mode():
                said = model(inputs(each)).float()
            if logits is None:
                logits = torch.zeros(len(images), said.shape[1], device=device)
            logits[rows] = said.clone()
            seen[rows] = 1
    finally:
        model.train(was_training)
    if logits is None:
        logits = torch.zeros(len(images), len(images.classes), device=device)
    seen, logits = total(seen).cpu().bool(), total(logits).cpu()
    if not seen.any():
        raise ValueError(f"none of the {len(images)} images can be read, {images.names[0]} for one")
    labels = torch.from_numpy(images.labels)
    return Answers(logits[seen], labels[seen], torch.nonzero(~seen).flatten().tolist())
