"""Traversals: orders from ranks, pooling, frames, random orders."""

import pytest
import torch

from spectral_vmamba.ops.frames import quarter_frame
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.traversal import Traversal, random_traversal, visiting_orders
from tests.support.traversals import (
    SHAPES,
    assert_permutations,
    assert_permutations_at_every_level,
    smooth_maps,
    traverse,
)


def test_flipping_an_eigenvector_swaps_its_two_paths_ties_included():
    ranks = torch.tensor([[[0, 1, 1, 2, 0]]])
    content, radii = torch.tensor([[4, 3, 2, 1, 0]]), torch.arange(5)
    orders = visiting_orders(ranks, content, radii)
    flipped = visiting_orders(-ranks, content, radii)
    assert torch.equal(orders, flipped.flip(1))


def test_content_then_radius_break_ties():
    ranks = torch.zeros(1, 1, 4, dtype=torch.int64)
    radii = torch.tensor([3, 1, 2, 0])
    assert visiting_orders(ranks, torch.tensor([[1, 0, 1, 1]]), radii)[0, 0].tolist() == [1, 3, 2, 0]


def test_a_pooled_token_takes_the_rank_of_the_strongest():
    grid = Grid(2, 2)
    ranks, content = torch.tensor([[[3, 0, 2, 1]]]), torch.tensor([[0, 1, 2, 3]])
    traversal = Traversal.from_ranks(grid, ranks, content)
    assert traversal.pool(torch.tensor([[0.1, 0.9, 0.2, 0.3]])).ranks.tolist() == [[[0]]]
    assert traversal.pool(torch.tensor([[0.9, 0.9, 0.1, 0.3]])).ranks.tolist() == [[[0]]], "content breaks the tie"


@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (7, 7)], ids=str)
def test_undoing_a_frame_gives_the_orders_of_the_original_maps(shape):
    maps = smooth_maps(4, *shape)
    canonical, frame = quarter_frame(maps)
    expected, undone = traverse(maps), traverse(canonical).undo_pose(frame)
    assert undone.grid == expected.grid
    for field in ("ranks", "content", "orders"):
        assert torch.equal(getattr(undone, field), getattr(expected, field))


def test_random_orders_depend_on_the_seed_only():
    grid = Grid(5, 9)
    first, same, other = (random_traversal(grid, 3, 4, seed, torch.device("cpu")) for seed in (0, 0, 1))
    assert_permutations(first.orders)
    assert torch.equal(first.orders, same.orders)
    assert not torch.equal(first.orders, other.orders)
    assert torch.equal(first.orders[0], first.orders[2])


@pytest.mark.parametrize("domain", ["square", "disk"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_random_orders_are_permutations_at_every_level(shape, domain):
    traversal = random_traversal(Grid(*shape, domain), 2, 4, 1, torch.device("cpu"))
    assert_permutations_at_every_level(traversal)
