"""Evaluations made by hand, for tests of reports and files."""

from collections.abc import Sequence

import numpy as np
import torch

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference.checkpoint import CheckpointHeader
from spectral_vmamba.inference.evaluation import Evaluation, ImagePrediction
from spectral_vmamba.metrics.classification import measure_scores
from spectral_vmamba.metrics.rotation import AngleScores, Sweep


def make_evaluation(
    labels: Sequence[int],
    predicted: Sequence[int],
    classes: Sequence[str],
    names: Sequence[str] | None = None,
    name: str = "run",
    confidence: float = 0.9,
    smoothing: float | None = 0.1,
    selected_epoch: bool = False,
) -> Evaluation:
    """An evaluation of as many digits as there are labels, with these predictions at every angle."""
    logits = torch.full((len(labels), len(classes)), 0.0)
    logits[range(len(labels)), list(predicted)] = float(np.log(confidence / (1 - confidence) * (len(classes) - 1)))
    probabilities = logits.softmax(1)
    count = len(labels)
    digits = read_digits().subset(np.arange(count) % 1797)
    names = names or [f"images/{i}.png" for i in range(count)]
    images = ImageDataset(tuple(classes), np.array(labels), names, digits.stamps, digits.storage)
    correct = tuple(sum(a == b == c for a, b in zip(labels, predicted, strict=True)) for c in range(len(classes)))
    points = [AngleScores(angle, count, sum(correct), count, 0.0, correct) for angle in (0.0, 90.0, 180.0, 270.0)]
    preprocessing = Preprocessing(8, (0.5,) * 3, (0.5,) * 3)
    config = {} if smoothing is None else {"augment": {"smoothing": smoothing}}
    header = CheckpointHeader(
        "spectral_vmamba_nano",
        {},
        tuple(classes),
        preprocessing,
        DataSplit("photos", None, 0.2, 7),
        True,
        versions={"torch": "2"},
        training={"config": config},
    )
    return Evaluation(
        name,
        "validation images of photos",
        tuple(classes),
        measure_scores(logits, torch.tensor(labels)),
        [Sweep(name, "black", points), Sweep(name, "disk", points)],
        [],
        [
            ImagePrediction(i, names[i], label, guess, float(probabilities[i].max()), float(probabilities[i, label]))
            for i, (label, guess) in enumerate(zip(labels, predicted, strict=True))
        ],
        images,
        header,
        selected_epoch,
        1.5,
    )
