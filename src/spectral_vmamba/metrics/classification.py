"""How good answers are: accuracy over all and by class, calibration, confusion. From torchmetrics."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Scores:
    """Shares from 0 to 1. `per_class` is None for a class without images; `confusion[i][j]` counts images of class
    i that were taken for j; `calibration_error` is the expected one over 15 bins."""

    images: int
    top1: float
    top5: float
    loss: float
    calibration_error: float
    per_class: list[float | None]
    confusion: list[list[int]]


def measure_scores(logits: Float[Tensor, "n classes"], labels: Int[Tensor, "n"]) -> Scores:
    from torchmetrics.functional.classification import multiclass_calibration_error, multiclass_confusion_matrix

    classes = logits.shape[1]
    confusion = multiclass_confusion_matrix(logits.argmax(1), labels, classes)
    counts = confusion.sum(1)
    right = confusion.diag()
    return Scores(
        images=len(labels),
        top1=top_share(logits, labels, 1),
        top5=top_share(logits, labels, 5),
        loss=float(F.cross_entropy(logits.double(), labels)),
        calibration_error=float(multiclass_calibration_error(logits.softmax(1), labels, classes, n_bins=15)),
        per_class=[float(r / n) if n else None for r, n in zip(right, counts, strict=True)],
        confusion=confusion.tolist(),
    )


def top_share(logits: Float[Tensor, "n classes"], labels: Int[Tensor, "n"], best: int) -> float:
    """Share of images whose class is among the `best` likeliest."""
    likeliest = logits.topk(min(best, logits.shape[1]), dim=1).indices
    return float((likeliest == labels[:, None]).any(1).to(torch.float64).mean())
