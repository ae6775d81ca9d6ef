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


def halves(figure, images=1):
    """The panels that show something, as [image][view][scans or eigenvectors]."""
    axes = np.array(figure.axes[:-1]).reshape(images, 2, 2, -1)
    return axes.transpose(0, 2, 1, 3)


def test_the_plot_shows_the_measured_visit_times(pair):
    views = halves(plot_traversals([pair]))[0]
    for view, (panels, image) in enumerate(zip(views, pair.images, strict=True)):
        assert np.array_equal(panels[0, 0].images[0].get_array(), image)
        rows, columns = pair.cross_scan.visit_times[view]
        expected = [[rows, columns, 1 - rows, 1 - columns], pair.spectral.visit_times[view]]
        for shown, times in zip(panels[:, 1:].flat, np.concatenate(expected), strict=True):
            assert np.array_equal(shown.images[1].get_array(), times)
            assert shown.images[1].get_extent() == [0, image.shape[1], image.shape[0], 0]
    by_rows, first = ([np.asarray(views[view, line, 1].images[1].get_array()) for view in (0, 1)] for line in (0, 1))
    assert np.array_equal(np.rot90(first[0]), first[1])
    assert not np.array_equal(np.rot90(by_rows[0]), by_rows[1])


def test_reversed_scans_visit_patches_from_last_to_first(pair):
    panels = halves(plot_traversals([pair]))[0, 0, 0]
    forward, backward = (np.asarray(panels[number].images[1].get_array()) for number in (1, 3))
    assert np.array_equal(np.argsort(forward, axis=None), np.argsort(backward, axis=None)[::-1])


def test_titles_name_the_image_the_angle_and_the_correlations(pair):
    upright, rotated = halves(plot_traversals([pair]))[0]
    assert upright[0, 0].get_title() == "noise"
    assert [panel.get_title() for panel in upright[0, 1:]] == [
        *("VMamba\nby rows", "VMamba\nby columns", "VMamba\nrows, reversed", "VMamba\ncolumns, reversed")
    ]
    assert rotated[0, 0].get_title() == "rotated by 90°"
    assert rotated[1, 1].get_title() == "eigenvector 1\nρ = 1.00"


def test_the_figure_counts_the_steps_that_agree(pair):
    figure = plot_traversals([pair, pair])
    title, agreeing = figure._suptitle.get_text(), pair.cross_scan.agreeing
    assert "Eigenvectors: 560 of 560 steps visit the same patch." in title
    assert f"VMamba: {2 * agreeing} of 280 steps visit the same patch." in title
    (shares,) = halves(figure, 2)[1, 1, 1, 0].texts
    assert f"VMamba\n{agreeing / 140:.1%}" in shares.get_text()
    assert "eigenvectors\n100.0%" in shares.get_text()
    between = replace(pair, spectral=replace(pair.spectral, agreeing=None))
    figure = plot_traversals([between])
    assert "steps" not in figure._suptitle.get_text()
    assert not halves(figure)[0, 1, 1, 0].texts


def test_two_rows_per_image(pair):
    figure = plot_traversals([pair, pair, pair])
    assert len([axis for axis in figure.axes if axis.images]) == 3 * 2 * 9


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_any_number_of_eigenvectors(pair, count):
    times = tuple(np.concatenate([each] * 2)[:count] for each in pair.spectral.visit_times)
    changed = replace(pair, spectral=replace(pair.spectral, visit_times=times, correlations=(1.0,) * count))
    figure = plot_traversals([changed])
    scans = 4 if count >= 4 else 2
    assert len([axis for axis in figure.axes if axis.images]) == 2 * (1 + scans + count)
