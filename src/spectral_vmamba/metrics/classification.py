"""Classification scores: accuracy overall and per class, calibration, confusion."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.utils.extras import require


@dataclass(frozen=True)
class Scores:
    """Scores of a classifier on labeled images. Accuracies and the calibration error are between 0 and 1.

    `per_class` is `None` for a class without images. `confusion[i][j]` counts the images of class i predicted as j.
    `calibration_error` is the expected calibration error over 15 bins.
    """

    images: int
    top1: float
    top5: float
    loss: float
    calibration_error: float
    per_class: list[float | None]
    confusion: list[list[int]]


@dataclass(frozen=True)
class ClassScores:
    """Counts of one class; `predicted` images were assigned to it. Rates are None where there is nothing to divide."""

    images: int
    predicted: int
    correct: int

    @property
    def recall(self) -> float | None:
        return self.correct / self.images if self.images else None

    @property
    def precision(self) -> float | None:
        return self.correct / self.predicted if self.predicted else None

    @property
    def f1(self) -> float | None:
        total = self.images + self.predicted
        return 2 * self.correct / total if total else None


def measure_classes(confusion: Sequence[Sequence[int]]) -> list[ClassScores]:
    """Return the counts of each class from a confusion matrix (true class, predicted class)."""
    predicted = [sum(column) for column in zip(*confusion, strict=True)]
    return [ClassScores(sum(row), predicted[i], row[i]) for i, row in enumerate(confusion)]


def measure_scores(logits: Float[Tensor, "n classes"], labels: Int[Tensor, "n"]) -> Scores:
    """Score the logits of all images at once. Requires the extra `train` (torchmetrics)."""
    torchmetrics = require("torchmetrics.functional.classification", "train")
    classes = logits.shape[1]
    confusion = torchmetrics.multiclass_confusion_matrix(logits.argmax(1), labels, classes)
    totals = confusion.sum(1)
    correct = confusion.diag()
    calibration_error = torchmetrics.multiclass_calibration_error(logits.softmax(1), labels, classes, n_bins=15)
    return Scores(
        images=len(labels),
        top1=top_k_accuracy(logits, labels, 1),
        top5=top_k_accuracy(logits, labels, 5),
        loss=float(F.cross_entropy(logits.double(), labels)),
        calibration_error=float(calibration_error),
        per_class=[float(right / total) if total else None for right, total in zip(correct, totals, strict=True)],
        confusion=confusion.tolist(),
    )


def top_k_accuracy(logits: Float[Tensor, "n classes"], labels: Int[Tensor, "n"], k: int) -> float:
    """Share of images whose label is among the `k` most likely classes."""
    predicted = logits.topk(min(k, logits.shape[1]), dim=1).indices
    return float((predicted == labels[:, None]).any(1).to(torch.float64).mean())
