"""Visiting orders of images compared with those of rotated images."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from spectral_vmamba.metrics.traversal_gap import OrderPair, measure_traversal, summarize_steps, traversal_gap
from spectral_vmamba.models import SpectralConfig, SpectralTokenizer
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.traversal import Traversal

HALF = ((0.5,) * 3, (0.5,) * 3)


def tokenizer(**options) -> SpectralTokenizer:
    """Return a small tokenizer without the canonical frame, which would make the orders equal by itself."""
    return SpectralTokenizer(
        SpectralConfig(stem="conv", widths=(16,), depths=(1,), patch_size=8, frame="none", **options)
    )


def test_correlations_on_the_disk_ignore_the_cells_outside():
    """Ranks that grow outwards hardly change under a rotation by 30°, whatever number they start from."""
    grid = Grid(14, 14, "disk")
    for offset in (0, 1000):
        ranks = (grid.squared_radii() + offset).expand(1, 1, -1)
        traversal = Traversal.from_ranks(grid, ranks, torch.zeros_like(ranks[:, 0]))
        assert float(traversal_gap(traversal, traversal, 30.0).correlations) > 0.9995  # measured: 0.99995


def test_a_reversed_order_has_a_negative_correlation():
    grid = Grid(3, 3)
    ranks = torch.arange(9).expand(1, 1, -1)
    content = torch.zeros_like(ranks[:, 0])
    upright = Traversal.from_ranks(grid, ranks, content)
    reversed_ranks = Traversal.from_ranks(grid, ranks.flip(-1), content)
    gap = traversal_gap(upright, reversed_ranks, 0.0)
    assert float(gap.correlations) == -1
    assert gap.same_steps is not None
    assert gap.same_steps.sum() == 2  # the middle step of the ascending and of the descending order


def test_a_raster_order_is_not_the_same_after_a_quarter_turn():
    grid = Grid(3, 3)
    ranks = torch.arange(9).expand(1, 1, -1)
    raster = Traversal.from_ranks(grid, ranks, torch.zeros_like(ranks[:, 0]))
    gap = traversal_gap(raster, raster, 90.0)
    assert gap.same_steps is not None
    assert gap.same_steps.sum() == 2
    assert float(gap.correlations) == pytest.approx(0, abs=1e-15)


def test_visit_times_rotate_with_the_image():
    pair = measure_traversal(tokenizer(), torch.rand(3, 40, 56) * 255, 90.0, *HALF, "noise")
    upright, rotated = pair.spectral.visit_times
    assert (pair.spectral.agreeing, pair.spectral.steps) == (280, 280)  # 8 orders of 5 × 7 patches
    assert pair.spectral.correlations == pytest.approx((1, 1, 1, 1), abs=1e-15)
    assert upright.shape == (4, 5, 7)
    assert np.array_equal(np.rot90(upright, axes=(1, 2)), rotated)
    assert np.array_equal(np.rot90(pair.images[0]), pair.images[1])
    for times in upright:
        assert np.allclose(np.sort(times.ravel()), np.arange(35) / 34, rtol=0, atol=1e-15)  # measured: 1.1e-16


def test_the_cross_scan_does_not_rotate_with_the_image():
    """Its times are the same numbers before and after the turn, not those of the same patches."""
    pair = measure_traversal(tokenizer(), torch.rand(3, 40, 40) * 255, 90.0, *HALF)
    rows, columns = pair.cross_scan.visit_times[0]
    assert np.allclose(rows, np.arange(25).reshape(5, 5) / 24, rtol=0, atol=1e-15)
    assert np.array_equal(columns, rows.T)
    assert np.array_equal(pair.cross_scan.visit_times[0], pair.cross_scan.visit_times[1])
    assert (pair.cross_scan.agreeing, pair.cross_scan.steps) == (4, 100)  # the center, in each of 4 orders


def test_a_traversal_that_ignores_the_image_is_noticed():
    pair = measure_traversal(tokenizer(traversal="cross"), torch.rand(3, 40, 40) * 255, 90.0, *HALF)
    assert (pair.spectral.agreeing, pair.spectral.steps) == (4, 100)
    assert not np.array_equal(np.rot90(pair.spectral.visit_times[0], axes=(1, 2)), pair.spectral.visit_times[1])


def test_the_disk_leaves_cells_outside_empty():
    pair = measure_traversal(tokenizer(domain="disk"), torch.rand(3, 64, 64) * 255, 45.0, *HALF)
    for orders in (pair.spectral, pair.cross_scan):
        assert np.isnan(orders.visit_times[0][:, 0, 0]).all()
        assert not np.isnan(orders.visit_times[0][:, 4, 4]).any()
        assert orders.agreeing is None


def test_steps_are_summed_over_images():
    times = (np.zeros((1, 2, 2)),) * 2
    one, other = OrderPair(times, 1200, 1500, (1.0,)), OrderPair(times, 3, 8, (1.0,))
    assert summarize_steps([one, other]) == "1,203 of 1,508 steps visit the same patch"
    assert summarize_steps([one, replace(other, agreeing=None)]) is None
