"""Plots of accuracy over the rotation angle."""

import numpy as np

from spectral_vmamba.metrics.rotation import AngleScores, Sweep
from spectral_vmamba.plots.rotation_plots import plot_polar, plot_sweeps


def sweep(name: str, fill="black") -> Sweep:
    return Sweep(name, fill, [AngleScores(angle, 10, 10 - i, 9, 0.1) for i, angle in enumerate((0.0, 90.0, 180.0))])


def test_sweeps_close_the_circle():
    """The line ends at 360° with the value at 0°."""
    accuracy, agreement = plot_sweeps([sweep("a")]).axes
    assert accuracy.lines[0].get_xydata().tolist() == [[0, 100], [90, 90], [180, 80], [360, 100]]
    assert agreement.lines[0].get_ydata().tolist() == [90, 90, 90, 90]


def test_polar_angles_are_radians():
    (axis,) = plot_polar([sweep("a")]).axes
    assert np.allclose(axis.lines[0].get_xdata(), [0, np.pi / 2, np.pi, 0], rtol=0, atol=1e-15)
    assert axis.lines[0].get_ydata().tolist() == [100, 90, 80, 100]


def test_labels_name_the_fill_only_where_it_differs():
    same_fill = plot_sweeps([sweep("a"), sweep("b")])
    assert [text.get_text() for text in same_fill.legends[0].get_texts()] == ["a", "b"]
    both = plot_polar([sweep("a"), sweep("a", "disk")])
    assert [text.get_text() for text in both.legends[0].get_texts()] == ["a, black", "a, disk"]
