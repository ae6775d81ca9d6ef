"""Orders that depend only on the grid: permutations, published patterns, windows that reach past the grid."""

import numpy as np
import pytest
import torch

from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.orders import (
    ABSENT,
    PATTERNS,
    concatenate_orders,
    direction_cells,
    pattern_orders,
    random_pattern,
)
from spectral_vmamba.ops.traversal import PatternTraversal, random_traversal

SIZES = [(14, 14), (7, 7), (5, 9), (1, 6), (6, 1), (1, 1)]
DIRECTIONS = ["h", "h_flip", "v", "v_flip", "w2", "w2_flip", "w7", "w7_flip", "w3"]
PATTERN_CHOICES = [*PATTERNS, "random", ("w2", "v_flip"), "w3", random_pattern(3, seed=1)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_directions_visit_every_cell_once_and_pad_to_whole_windows(size, direction):
    cells = direction_cells(direction, *size)
    assert sorted(cells[cells != ABSENT]) == list(range(size[0] * size[1]))
    side = int(direction.removesuffix("_flip")[1:] or 1)
    assert len(cells) == np.prod([-(-n // side) * side for n in size])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pattern", PATTERN_CHOICES, ids=str)
def test_patterns_are_permutations_with_inverses(size, pattern):
    traversal = PatternTraversal.from_pattern(pattern, Grid(*size), 2, torch.device("cpu"))
    tokens = torch.arange(size[0] * size[1]).expand(traversal.orders.shape)
    visited = tokens.gather(-1, traversal.orders)
    assert torch.equal(visited.gather(-1, traversal.inverses), tokens)
    assert torch.equal(traversal.ranks, traversal.inverses)


def test_cross_pattern():
    """Rows, columns, and both reversed, as in VMamba."""
    orders = pattern_orders("cross", Grid(2, 3))
    assert orders.tolist() == [[0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5], [5, 4, 3, 2, 1, 0], [5, 2, 4, 1, 3, 0]]


def test_windows_and_their_cells_are_visited_row_by_row():
    assert direction_cells("w2", 2, 4).tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
    assert direction_cells("w2", 3, 3).tolist() == [0, 1, 3, 4, 2, -1, 5, -1, 6, 7, -1, -1, 8, -1, -1, -1]
    assert direction_cells("w2_flip", 2, 2).tolist() == [3, 2, 1, 0]


def test_concatenated_orders():
    order, _ = concatenate_orders(("h_flip", "v", "v_flip"), Grid(2, 3))
    assert order.reshape(3, 6).tolist() == [[5, 4, 3, 2, 1, 0], [0, 3, 1, 4, 2, 5], [5, 2, 4, 1, 3, 0]]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("directions", [("h_flip", "v", "v_flip"), ("w2", "h"), "cross"], ids=str)
def test_concatenated_orders_have_an_inverse(size, directions):
    """Every token is visited once per order, and the inverse gives the steps."""
    order, steps = concatenate_orders(directions, Grid(*size))
    parts, tokens = steps.shape
    assert torch.equal(order[steps], torch.arange(tokens).expand(parts, tokens)), (
        "the steps of a token visit that token"
    )
    assert torch.equal(steps.flatten().sort().values, torch.arange(len(order))), "every step belongs to one token"
    assert torch.equal(steps // tokens, torch.arange(parts)[:, None].expand(parts, tokens)), "one step in every order"


def test_patterns_on_a_disk():
    grid = Grid(8, 8, domain="disk")
    orders = pattern_orders("cross", grid)
    tokens = len(grid.cells())
    assert tokens < 64
    assert torch.equal(orders.sort(-1).values, torch.arange(tokens).expand(4, tokens))
    rows = grid.cells()[orders[0]] // 8
    assert (rows.diff() >= 0).all(), "row by row, without the corners"


def test_pooling_recomputes_the_pattern_on_the_halved_grid():
    traversal = PatternTraversal.from_pattern("cross", Grid(5, 9), 3, torch.device("cpu"))
    pooled = traversal.pool(torch.rand(3, 45))
    assert (pooled.grid.height, pooled.grid.width) == (3, 5)
    assert torch.equal(pooled.orders[1], pattern_orders("cross", pooled.grid))


def test_random_patterns_depend_on_the_seed_only():
    grid = Grid(4, 4)
    a, b, c = (pattern_orders(random_pattern(2, seed), grid) for seed in (0, 0, 1))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
    assert torch.equal(pattern_orders("random", grid)[:2], a)
    assert len(pattern_orders("random", grid)) == 4


def test_random_patterns_and_random_traversals_are_equal():
    grid, cpu = Grid(5, 9), torch.device("cpu")
    orders = pattern_orders(random_pattern(3, seed=2), grid)
    assert torch.equal(random_traversal(grid, 1, 3, 2, cpu).ranks[0], orders)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("diagonal", "unknown scan direction 'diagonal'"),
        ("w0", "unknown scan direction"),
        (("h", "x"), "unknown scan direction 'x'"),
        (lambda grid: torch.zeros(1, 6), "each row a permutation of 0..5"),
        (lambda grid: torch.arange(6), "each row a permutation of 0..5"),
        (lambda grid: torch.arange(5)[None], "each row a permutation of 0..5"),
    ],
)
def test_invalid_patterns(pattern, message):
    with pytest.raises(ValueError, match=message):
        pattern_orders(pattern, Grid(2, 3))
