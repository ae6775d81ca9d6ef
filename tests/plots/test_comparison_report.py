"""The report that compares classifiers."""

from dataclasses import replace

import numpy as np

from spectral_vmamba.inference.certificate import Certificate, Check, Promise
from spectral_vmamba.metrics.classification import Scores
from spectral_vmamba.metrics.rotation import AngleScores, Sweep
from spectral_vmamba.metrics.traversal_gap import OrderPair, TraversalPair
from spectral_vmamba.plots.comparison_report import MeasuredClassifier, make_comparison_report
from spectral_vmamba.plots.training_plots import LearningCurve


def classifier(label: str) -> MeasuredClassifier:
    points = [AngleScores(angle, 10, 10 - i, 9, 0.25) for i, angle in enumerate((0.0, 90.0, 180.0, 270.0))]
    scores = Scores(10, 1.0, 1.0, 0.1, 0.02, [1.0, 1.0], [[5, 0], [0, 5]])
    sweeps = [Sweep(label, "black", points), Sweep(label, "disk", points)]
    tensor = Check("tensor", "quarter turns", Promise(0.0, "Why."), 10, 30, 3, 0.25)
    certificate = Certificate(label, "digits", 10, (tensor, replace(tensor, level="no-frame", max_change=0.5)))
    return MeasuredClassifier(label, ("a", "b"), LearningCurve([1.0], [0.5]), scores, sweeps, certificate)


def test_the_report_holds_every_figure_and_number():
    images = (np.zeros((4, 4, 3), np.uint8),) * 2
    orders = OrderPair((np.zeros((1, 2, 2)),) * 2, 8, 8, (1.0,))
    pair = TraversalPair("photo", 90.0, images, orders, orders)
    figures, page = make_comparison_report(
        [classifier("first"), classifier("second")],
        title="title",
        introduction="introduction",
        shipped=classifier("shipped").sweeps[0],
        traversals={"traversal_90": [pair]},
        reproduce="spectral-vmamba demo",
        seconds=12.3,
    )
    assert list(figures) == [
        "shipped",
        "polar",
        "rotations_black",
        "rotations_disk",
        "learning",
        "confusion_0",
        "confusion_1",
        "traversal_90",
    ]
    assert page.count("data:image/png;base64,") == len(figures)
    cells = ["first", "black", "100.0%", "90.0% / 80.0% / 70.0%", "3", "0.25", "85.0%", "70.0% at 270°"]
    assert "".join(f"<td>{cell}</td>" for cell in cells) in page
    cells = ["second", "no-frame", "3 of 30", "90.00%", "0.5", "same bits", "FAILED"]
    assert "".join(f"<td>{cell}</td>" for cell in cells) in page
    assert "Visiting orders at 90°" in page
    assert "100.0% upright, at least 70.0% at 4 angles; 3 of 30 predictions change at 90, 180 and 270°." in page
    assert "This report took 12 s." in page


def test_a_classifier_in_one_line():
    assert classifier("first").summarize() == (
        "first: 100.0% upright, 90.0%/80.0%/70.0% at 90/180/270° (3 flips), worst 70.0% at 270°"
    )
