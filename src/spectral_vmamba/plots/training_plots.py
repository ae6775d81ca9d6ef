"""Plot learning curves and confusion matrices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from spectral_vmamba.metrics.classification import Scores

LABELED_CLASSES = 30  # a confusion matrix of more classes has no room for names and counts


@dataclass(frozen=True)
class LearningCurve:
    """Mean training loss and validation accuracy (0 to 1) per epoch."""

    loss: list[float]
    accuracy: list[float]


def plot_learning(curves: Mapping[str, LearningCurve]) -> Figure:
    """Plot training loss and validation accuracy over the epochs, one line per curve."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    loss, accuracy = figure.subplots(1, 2)
    for name, curve in curves.items():
        epochs = range(1, len(curve.loss) + 1)
        loss.plot(epochs, curve.loss, label=name)
        accuracy.plot(epochs, [100 * share for share in curve.accuracy])
    for axis, label in ((loss, "training loss"), (accuracy, "validation accuracy, upright [%]")):
        axis.set_xlabel("epoch")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
    return figure


def plot_confusion(scores: Scores, classes: Sequence[str], title: str) -> Figure:
    """Plot the confusion matrix, colored by the share of each class. Up to 30 classes, cells show image counts."""
    counts = np.array(scores.confusion)
    side = max(4.5, min(0.45 * len(classes) + 2, 14))
    figure = Figure(figsize=(side, side), layout="constrained")
    axis = figure.subplots()
    axis.imshow(counts / counts.sum(1, keepdims=True).clip(1), cmap="Blues", vmin=0, vmax=1)
    if len(classes) <= LABELED_CLASSES:
        axis.set_xticks(range(len(classes)), classes, rotation=90 if max(map(len, classes)) > 2 else 0)
        axis.set_yticks(range(len(classes)), classes)
        for i, j in zip(*np.nonzero(counts), strict=True):
            dark = counts[i, j] > 0.5 * counts[i].sum()
            axis.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize=8, color="white" if dark else "black")
    axis.set_xlabel("predicted class")
    axis.set_ylabel("true class")
    axis.set_title(title, fontsize=11, parse_math=False)
    return figure
