"""Plots of visiting orders."""

from dataclasses import replace

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
    config = SpectralConfig(stem="conv", widths=(16,), depths=(1,), patch_size=8, frame="none")
    image = torch.rand(3, 40, 56) * 255
    return measure_traversal(SpectralTokenizer(config), image, 90.0, (0.5,) * 3, (0.5,) * 3, "noise")


def test_the_plot_shows_the_measured_visit_times(pair):
    figure = plot_traversals([pair])
    panels = [axis for axis in figure.axes if axis.images]
    rows = [panels[:7], panels[7:14]]
    for view, (row, image) in enumerate(zip(rows, pair.images, strict=True)):
        assert np.array_equal(row[0].images[0].get_array(), image)
        expected = np.concatenate([orders.visit_times[view] for orders in (pair.spectral, pair.cross_scan)])
        for axis, times in zip(row[1:], expected, strict=True):
            assert np.array_equal(axis.images[1].get_array(), times)
            assert axis.images[1].get_extent() == [0, image.shape[1], image.shape[0], 0]
    spectral, rows_scan = ([np.asarray(row[i].images[1].get_array()) for row in rows] for i in (1, 5))
    assert np.array_equal(np.rot90(spectral[0]), spectral[1])
    assert not np.array_equal(np.rot90(rows_scan[0]), rows_scan[1])


def test_titles_name_the_image_the_angle_and_the_correlations(pair):
    titles = [axis.get_title() for axis in plot_traversals([pair]).axes]
    assert titles[0] == "noise"
    assert titles[5] == "VMamba, by rows"
    assert titles[7] == "rotated by 90°"
    assert titles[8] == "eigenvector 1\nρ = 1.00"


def test_the_figure_counts_the_steps_that_agree(pair):
    title = plot_traversals([pair, pair])._suptitle.get_text()
    assert "Eigenvectors: 560 of 560 steps visit the same patch." in title
    assert f"VMamba: {2 * pair.cross_scan.agreeing} of 280 steps visit the same patch." in title
    between = replace(pair, spectral=replace(pair.spectral, agreeing=None))
    assert "steps" not in plot_traversals([between])._suptitle.get_text()


def test_two_rows_per_image(pair):
    figure = plot_traversals([pair, pair, pair])
    assert len([axis for axis in figure.axes if axis.images]) == 3 * 2 * 7
