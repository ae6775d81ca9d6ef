"""How well masks match: IoU of each class, pixel accuracy, and how well their boundaries match."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from scipy.ndimage import distance_transform_edt
from torch import Tensor

from spectral_vmamba.utils.extras import require

BOUNDARY_TOLERANCE = 0.0075  # of the diagonal, as usual for the boundary F1


@dataclass(frozen=True)
class MaskScores:
    """Shares, 0 to 1. The IoU of a class that neither the masks nor the predictions contain is None.

    `boundary_f1` is the harmonic mean of two shares: of predicted boundary pixels near a true one, and of true boundary
    pixels near a predicted one, where near is 0.75 % of the diagonal; mean over classes. None if it was not measured
    or no class has a boundary.
    """

    mean_iou: float
    pixel_accuracy: float
    class_iou: tuple[float | None, ...]
    boundary_f1: float | None = None


def count_pixels(
    predicted: Int[Tensor, "h w"], labels: Int[Tensor, "h w"], classes: int, ignore_index: int
) -> Int[Tensor, "classes classes"]:
    """The confusion matrix: how many pixels of each class (rows) were predicted as each class (columns)."""
    functional: Any = require("torchmetrics.functional.classification", "segment")
    return functional.multiclass_confusion_matrix(predicted.long(), labels.long(), classes, ignore_index=ignore_index)


def mask_scores(counts: Int[Tensor, "classes classes"], boundaries: "BoundaryCounts | None" = None) -> MaskScores:
    """Scores of a confusion matrix. Without any labeled pixel, all are 0."""
    counts = counts.double()
    hits, union = counts.diag(), counts.sum(0) + counts.sum(1) - counts.diag()
    present = union > 0
    iou = hits / union.clamp(min=1)
    return MaskScores(
        float(iou[present].mean()) if present.any() else 0.0,
        float(hits.sum() / counts.sum().clamp(min=1)),
        tuple(float(value) if there else None for value, there in zip(iou, present, strict=True)),
        None if boundaries is None else boundaries.f1(),
    )


@dataclass
class BoundaryCounts:
    """Boundary pixels of each class over all images: how many were predicted and are true, and how many are near."""

    near_predicted: Float[np.ndarray, "classes"]
    predicted: Float[np.ndarray, "classes"]
    near_true: Float[np.ndarray, "classes"]
    true: Float[np.ndarray, "classes"]

    @classmethod
    def empty(cls, classes: int) -> "BoundaryCounts":
        return cls(*(np.zeros(classes) for _ in range(4)))

    def add(self, predicted: UInt8[np.ndarray, "h w"], labels: UInt8[np.ndarray, "h w"], ignore_index: int) -> None:
        """Count the boundaries of an image. Those next to ignored pixels do not count."""
        height, width = labels.shape
        tolerance = max(1.0, BOUNDARY_TOLERANCE * float(np.hypot(height, width)))
        counted = _away_from(labels == ignore_index)
        for number in range(len(self.true)):
            ours, theirs = (_boundary(mask == number) & counted for mask in (predicted, labels))
            self.near_predicted[number] += (ours & _near(theirs, tolerance)).sum()
            self.near_true[number] += (theirs & _near(ours, tolerance)).sum()
            self.predicted[number] += ours.sum()
            self.true[number] += theirs.sum()

    def f1(self) -> float | None:
        """Mean over the classes that have a boundary anywhere; None without any."""
        present = (self.predicted + self.true) > 0
        precision = self.near_predicted / np.maximum(self.predicted, 1)
        recall = self.near_true / np.maximum(self.true, 1)
        f1 = 2 * precision * recall / np.maximum(precision + recall, np.finfo(float).tiny)
        return float(f1[present].mean()) if present.any() else None


def _boundary(mask: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """Pixels of the mask next to one that is not. The edge of the image is no boundary."""
    return mask & ~_away_from(~mask)


def _away_from(mask: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """Pixels outside the mask without a neighbor, of four, in it."""
    padded = np.pad(mask, 1)
    return ~(mask | padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:])


def _near(mask: Bool[np.ndarray, "h w"], distance: float) -> Bool[np.ndarray, "h w"]:
    if not mask.any():
        return np.zeros_like(mask)
    distances: Any = distance_transform_edt(~mask)
    return distances <= distance


def dice_loss(
    scores: Float[Tensor, "b classes h w"], labels: Int[Tensor, "b h w"], ignore_index: int
) -> Float[Tensor, ""]:
    """1 − the Dice coefficient of probabilities and labels over the batch, mean over the classes that occur."""
    counted = (labels != ignore_index)[:, None]
    classes = scores.shape[1]
    truth = torch.nn.functional.one_hot(torch.where(counted[:, 0], labels, 0), classes).movedim(-1, 1) * counted
    probabilities = scores.softmax(1) * counted
    overlap = (probabilities * truth).sum((0, 2, 3))
    total = probabilities.sum((0, 2, 3)) + truth.sum((0, 2, 3))
    present = truth.sum((0, 2, 3)) > 0
    dice = 2 * overlap / total.clamp(min=torch.finfo(scores.dtype).tiny)
    return ((1 - dice) * present).sum() / present.sum().clamp(min=1)
