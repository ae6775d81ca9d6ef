"""Classification scores."""

import pytest
import torch

from spectral_vmamba.metrics.classification import ClassScores, measure_classes, measure_scores, top_k_accuracy


def test_scores_by_hand():
    logits = torch.tensor([[3.0, 1, 0], [0, 2, 1], [0, 3, 1], [1, 0, 2]])
    labels = torch.tensor([0, 1, 0, 1])
    scores = measure_scores(logits, labels)
    assert scores.images == 4
    assert scores.top1 == 0.5
    assert scores.top5 == 1.0
    assert scores.per_class == [0.5, 0.5, None]
    assert scores.confusion == [[1, 1, 0], [0, 1, 1], [0, 0, 0]]
    assert scores.loss == pytest.approx(float(-logits.double().log_softmax(1)[range(4), labels].mean()), rel=1e-12)
    confidence, right = logits.softmax(1).max(1).values, torch.tensor([1.0, 1.0, 0.0, 0.0])
    bins = (confidence * 15).ceil().long()
    error = sum(
        (bins == b).double().mean() * (confidence[bins == b].mean() - right[bins == b].mean()).abs()
        for b in bins.unique()
    )
    assert scores.calibration_error == pytest.approx(float(error), rel=1e-6)


def test_top_k_counts_the_k_most_likely_classes():
    logits = torch.tensor([[3.0, 2, 1], [3.0, 2, 1], [3.0, 2, 1]])
    assert [top_k_accuracy(logits, torch.tensor([0, 1, 2]), k) for k in (1, 2, 3, 9)] == [1 / 3, 2 / 3, 1, 1]


def test_class_scores_by_hand():
    """Class 0: 3 images, 2 found. Class 1 has images but is never predicted. Class 2 is only predicted."""
    first, second, third = measure_classes([[2, 0, 1], [2, 0, 0], [0, 0, 0]])
    assert first == ClassScores(images=3, predicted=4, correct=2)
    assert (first.precision, first.recall, first.f1) == (0.5, 2 / 3, 4 / 7)
    assert (second.precision, second.recall, second.f1) == (None, 0.0, 0.0)
    assert (third.precision, third.recall, third.f1) == (0.0, None, 0.0)
