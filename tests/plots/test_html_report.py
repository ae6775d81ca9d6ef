"""Reports hold everything and show text as text."""

import base64
import re

from matplotlib.figure import Figure

from spectral_vmamba.metrics.classification import measure_scores
from spectral_vmamba.metrics.rotation import Sweep, TurnScores
from spectral_vmamba.plots.html_report import Section, as_html
from spectral_vmamba.plots.rotation_plots import plot_polar, plot_sweeps
from spectral_vmamba.plots.training_plots import LearningCurve, plot_confusion, plot_learning


def test_text_is_shown_as_text():
    page = as_html("a < b", "x & y", [Section("<script>", ["p > q"], [["h"], ["<b>"]], code="a && b")])
    for escaped in ("a &lt; b", "x &amp; y", "&lt;script&gt;", "p &gt; q", "<td>&lt;b&gt;</td>", "a &amp;&amp; b"):
        assert escaped in page
    assert "<script>" not in page


def test_images_are_inside():
    figure = Figure()
    figure.subplots().plot([1, 2])
    (found,) = re.findall(
        r'src="data:image/png;base64,([^"]+)"', as_html("t", "", [Section("s", figures=[(figure, "c")])])
    )
    assert base64.b64decode(found).startswith(b"\x89PNG")


def sweep(name: str, fill="black") -> Sweep:
    return Sweep(name, fill, [TurnScores(angle, 10, 10 - i, 9, 0.1) for i, angle in enumerate((0.0, 90.0, 180.0))])


def test_a_sweep_in_numbers():
    measured = sweep("a")
    assert measured.upright.accuracy == 1.0
    assert measured.worst.angle == 180
    assert measured.mean_accuracy == 0.9
    assert [point.flips for point in measured.quarters] == [1, 1]


def test_lines_are_told_apart_by_what_differs():
    same_fill = plot_sweeps([sweep("a"), sweep("b")])
    assert [text.get_text() for text in same_fill.legends[0].get_texts()] == ["a", "b"]
    both = plot_polar([sweep("a"), sweep("a", "disk")])
    assert [text.get_text() for text in both.legends[0].get_texts()] == ["a, black", "a, disk"]


def test_learning_and_confusion_are_drawn():
    import torch

    figure = plot_learning({"a": LearningCurve([2.0, 1.0], [0.5, 0.75])})
    assert figure.axes[1].lines[0].get_ydata().tolist() == [50, 75]
    scores = measure_scores(torch.eye(3), torch.tensor([0, 1, 1]))
    texts = {(t.get_position(), t.get_text()) for t in plot_confusion(scores, list("abc"), "t").axes[0].texts}
    assert texts == {((0, 0), "1"), ((1, 1), "1"), ((2, 1), "1")}
