"""Plots of visiting orders."""

import numpy as np
import pytest
import torch

from spectral_vmamba.metrics.traversal_gap import TraversalPair, measure_traversal
from spectral_vmamba.models import SpectralConfig, SpectralTokenizer
from spectral_vmamba.plots.traversal_plots import plot_traversals


@pytest.fixture(scope="module")
def pair() -> TraversalPair:
    """Without the canonical frame, so that the traversals of both images are computed from different pixels."""
    torch.manual_seed(0)
    config = SpectralConfig(stem="conv", widths=(16,), depths=(1,), patch_size=8, canonical_frame=False)
    image = torch.rand(3, 40, 56) * 255
    return measure_traversal(SpectralTokenizer(config), image, 90.0, (0.5,) * 3, (0.5,) * 3, "noise")


def test_the_plot_shows_the_measured_visit_times(pair):
    figure = plot_traversals([pair])
    panels = [axis for axis in figure.axes if axis.images]
    rows = [panels[:5], panels[5:10]]
    for row, image, times in zip(rows, pair.images, pair.visit_times, strict=True):
        assert np.array_equal(row[0].images[0].get_array(), image)
        for axis, expected in zip(row[1:], times, strict=True):
            assert np.array_equal(axis.images[1].get_array(), expected)
            assert axis.images[1].get_extent() == [0, image.shape[1], image.shape[0], 0]
    assert np.array_equal(np.rot90(rows[0][1].images[1].get_array()), rows[1][1].images[1].get_array())


def test_titles_name_the_image_the_angle_and_the_correlations(pair):
    titles = [axis.get_title() for axis in plot_traversals([pair]).axes]
    assert titles[0] == "noise"
    assert titles[5] == "rotated by 90°"
    assert titles[6] == "eigenvector 1: ρ = 1.00"


def test_two_rows_per_image(pair):
    figure = plot_traversals([pair, pair, pair])
    assert len([axis for axis in figure.axes if axis.images]) == 3 * 2 * 5
