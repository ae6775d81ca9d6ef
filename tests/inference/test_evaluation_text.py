"""Sentences about an evaluation."""

from spectral_vmamba.inference.evaluation_text import describe_worst_class, explain_calibration
from tests.support.evaluations import make_evaluation


def test_label_smoothing_explains_low_confidence():
    text = explain_calibration(make_evaluation([0, 1] * 5, [0, 1] * 5, ("a", "b"), confidence=0.9, smoothing=0.2))
    assert "Mean confidence 90.0%, accuracy 100.0%, expected calibration error 10.0% (15 bins)" in text
    assert "underconfident, by 10.0 points" in text
    assert "label smoothing 0.2: the target of the true class is 0.9, not 1. This keeps the confidence below 1" in text
    text = explain_calibration(make_evaluation([0, 1] * 5, [0, 1] * 5, ("a", "b"), confidence=0.6, smoothing=0.2))
    assert "underconfident, by 40.0 points" in text
    assert "This explains 10.0 points" in text


def test_other_causes_are_not_blamed_on_label_smoothing():
    over = explain_calibration(make_evaluation([0, 1], [1, 1], ("a", "b"), confidence=0.9))
    assert "overconfident, by 40.0 points" in over
    assert "smoothing" not in over
    under = explain_calibration(make_evaluation([0, 1], [0, 1], ("a", "b"), smoothing=None))
    assert "underconfident" in under
    assert "smoothing" not in under
    equal = explain_calibration(make_evaluation([0] * 10, [0] * 9 + [1], ("a", "b"), confidence=0.9))
    assert "the probabilities match the accuracy" in equal


def test_the_worst_class_is_named_only_if_there_is_one():
    assert describe_worst_class(make_evaluation([0, 1], [0, 1], ("a", "b"))) == "all classes at 100%"
    assert describe_worst_class(make_evaluation([0, 0, 1], [0, 1, 1], ("a", "b", "c"))) == "50.00% (a)"
    assert describe_worst_class(make_evaluation([0, 1], [1, 0], ("a", "b", "c"))) == "0.00% (a and 1 more)"
