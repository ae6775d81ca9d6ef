"""The operations of STS."""

import pytest
import torch

from spectral_vmamba.metrics.sts_operations import block_width, count_sts, measure_sts_operations
from spectral_vmamba.ops.spectral import measure_solver_work, neighbor_graphs
from tests.support.native import needs_native


def test_distances_of_the_paper():
    """196 tokens of 256 channels: 4.9 million for the pairs, as the text of docs/results.md says."""
    assert count_sts(196, 256, 0, 4, 0, 0).distances == 196 * 195 / 2 * 256 + 196 * 256


def test_the_solver_grows_linearly_with_tokens_and_edges():
    small, large = (count_sts(tokens, 16, 8 * tokens, 4, 5, 60).solver for tokens in (100, 200))
    assert large == 2 * small


@pytest.mark.parametrize(("eigenvectors", "width"), [(1, 8), (4, 12), (5, 16), (14, 32)])
def test_block_width(eigenvectors, width):
    assert block_width(eigenvectors) == width


def test_too_many_eigenvectors():
    with pytest.raises(ValueError, match="at most 14"):
        block_width(15)


@needs_native
def test_an_image_takes_at_least_one_product_per_round():
    graphs = neighbor_graphs(torch.rand(3, 196, 8), 5)
    work = measure_solver_work(graphs, 6, 4)
    assert (work.rounds > 0).all()
    assert (work.products >= work.rounds).all()
    assert measure_sts_operations(torch.rand(1, 196, 8), 5, 4).total > 0
