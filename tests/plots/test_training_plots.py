"""Learning curves and confusion matrices."""

import numpy as np
import torch

from spectral_vmamba.metrics.classification import measure_scores
from spectral_vmamba.plots.training_plots import LearningCurve, plot_confusion, plot_learning


def test_learning_curves_start_at_epoch_one():
    loss, accuracy = plot_learning({"a": LearningCurve([2.0, 1.0], [0.5, 0.75])}).axes
    assert loss.lines[0].get_xydata().tolist() == [[1, 2.0], [2, 1.0]]
    assert accuracy.lines[0].get_xydata().tolist() == [[1, 50], [2, 75]]


def test_confusion_shows_counts_and_shares():
    scores = measure_scores(torch.eye(3), torch.tensor([0, 1, 1]))
    (axis,) = plot_confusion(scores, list("abc"), "title").axes
    texts = {(text.get_position(), text.get_text()) for text in axis.texts}
    assert texts == {((0, 0), "1"), ((1, 1), "1"), ((2, 1), "1")}
    assert np.array_equal(axis.images[0].get_array(), [[1, 0, 0], [0, 0.5, 0.5], [0, 0, 0]])


def test_many_classes_have_no_counts():
    scores = measure_scores(torch.eye(31), torch.arange(31))
    (axis,) = plot_confusion(scores, [str(i) for i in range(31)], "title").axes
    assert not axis.texts
