"""Plots of accuracy over the rotation angle."""

import numpy as np
import pytest

from spectral_vmamba.metrics.rotation import AngleScores, Sweep
from spectral_vmamba.plots.rotation_plots import plot_polar, plot_sweeps


def sweep(name: str, fill="black", lost: int = 0) -> Sweep:
    """Accuracies of 100, 90 and 80 %, or one lost image less."""
    points = [AngleScores(angle, 10, 10 - i - lost, 9, 0.1) for i, angle in enumerate((0.0, 90.0, 180.0))]
    return Sweep(name, fill, points)


def test_sweeps_close_the_circle():
    """The line ends at 360° with the value at 0°."""
    accuracy, agreement = plot_sweeps([sweep("a")]).axes
    assert accuracy.lines[0].get_xydata().tolist() == [[0, 100], [90, 90], [180, 80], [360, 100]]
    assert agreement.lines[0].get_ydata().tolist() == [90, 90, 90, 90]


def test_polar_angles_are_radians():
    (axis,) = plot_polar([sweep("a")]).axes
    radius = dict(zip(axis.lines[0].get_xdata(), axis.lines[0].get_ydata(), strict=True))
    assert [radius[angle] for angle in (0, np.pi / 2, np.pi, 2 * np.pi)] == [100, 90, 80, 100]
    assert len(radius) > 100, "interpolated along the circle"


def test_labels_name_the_fill_only_where_it_differs():
    same_fill = plot_sweeps([sweep("a"), sweep("b", lost=1)])
    assert labels(same_fill) == ["a", "b"]
    both = plot_polar([sweep("a"), sweep("a", "disk", lost=1)])
    assert labels(both) == ["a, black", "a, disk"]


def test_equal_curves_share_a_line_and_its_label():
    figure = plot_sweeps([sweep("a"), sweep("b"), sweep("c", lost=1)])
    assert labels(figure) == ["a = b", "c"]
    assert [len(axis.lines) for axis in figure.axes] == [2, 2]
    assert labels(plot_polar([sweep("a"), sweep("a", "disk")])) == ["a, black = disk"]


def test_lines_that_overlap_differ_in_style():
    first, second = plot_sweeps([sweep("a"), sweep("b", lost=1)]).axes[0].lines
    assert first.get_linewidth() > second.get_linewidth()
    assert first.get_linestyle() != second.get_linestyle()


@pytest.mark.parametrize(("lowest", "limits"), [(1.0, (97, 99)), (0.95, (93, 95)), (0.5, (40, 48)), (0.05, (0, 0))])
def test_the_axis_begins_slightly_below_the_lowest_value(lowest, limits):
    points = [AngleScores(0.0, 100, 100, 100, 0.0), AngleScores(90.0, 100, round(100 * lowest), 100, 0.0)]
    figure = plot_sweeps([Sweep("a", "black", points)])
    bottom, top = figure.axes[0].get_ylim()
    assert limits[0] <= bottom <= limits[1]
    assert 100 < top < 104
    assert plot_polar([Sweep("a", "black", points)]).axes[0].get_ylim() == (bottom, 100)


def test_dollar_signs_are_not_mathematics():
    plot_sweeps([sweep("$a_{"), sweep("$x", lost=1)], "$y_{").draw_without_rendering()


def labels(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]
