"""Grids: cells, windows, disks."""

import pytest
import torch
import torch.nn.functional as F

from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.turns import turn

SHAPES = [
    (14, 14),
    (7, 7),
    (4, 4),
    (10, 10),
    (5, 5),
    (3, 3),
    (2, 2),
    (1, 1),
    (12, 16),
    (7, 9),
    (1, 6),
    (2, 5),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_windows_of_square_grids_equal_a_max_pool(shape):
    grid = Grid(*shape)
    tokens = torch.randn(2, shape[0] * shape[1], 3)
    padded = torch.cat([tokens, torch.full((2, 1, 3), -torch.inf)], 1)
    pooled = grid.halve().to_map(padded[:, grid.windows()].amax(2))
    kernel = [2 if side % 2 == 0 else 3 for side in shape]
    padding = [side % 2 for side in shape]
    assert torch.equal(pooled, F.max_pool2d(grid.to_map(tokens), kernel, 2, padding))


def test_levels_of_the_grid_at_224_pixels():
    assert [(Grid(14, 14, level=i).height, len(Grid(14, 14, level=i).cells())) for i in range(4)] == [
        (14, 196),
        (7, 49),
        (4, 16),
        (2, 4),
    ]


@pytest.mark.parametrize("domain", ["square", "disk"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cells_and_windows_turn_with_the_grid(shape, domain):
    grid = Grid(*shape, domain)
    turned_grid = grid.turn(1)
    for _ in range(3):
        inside = grid.to_map(torch.ones(1, len(grid.cells()), 1))
        assert torch.equal(turn(inside, 1), turned_grid.to_map(torch.ones(1, len(turned_grid.cells()), 1)))
        tokens = torch.randn(1, len(grid.cells()), 2)
        turned_tokens = turned_grid.from_map(turn(grid.to_map(tokens), 1))
        pool = lambda t, g: torch.cat([t, torch.full((1, 1, 2), -9.0)], 1)[:, g.windows()].amax(2)  # noqa: E731
        grid_map = grid.halve().to_map(pool(tokens, grid))
        assert torch.equal(turn(grid_map, 1), turned_grid.halve().to_map(pool(turned_tokens, turned_grid)))
        grid, turned_grid = grid.halve(), turned_grid.halve()


@pytest.mark.parametrize("domain", ["square", "disk"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_maps_and_back(shape, domain):
    grid = Grid(*shape, domain)
    tokens = torch.randn(2, len(grid.cells()), 3)
    assert torch.equal(grid.from_map(grid.to_map(tokens)), tokens)


def test_disk_cells_lie_inside_the_circle():
    grid = Grid(14, 14, "disk")
    inside = grid.to_map(torch.ones(1, len(grid.cells()), 1))[0, 0]
    assert not inside[0, 0]
    assert inside[0, 6] == 0, "the outer corners of this cell lie outside the circle"
    assert inside[1, 6]
    assert inside[6, 6]
    assert len(grid.cells()) == 120
    assert (grid.squared_radii() < 14**2).all()


def test_the_disk_of_an_oblong_image_is_round():
    cells = Grid(8, 20, "disk").to_map(torch.ones(1, len(Grid(8, 20, "disk").cells()), 1))[0, 0]
    assert cells[:, :6].sum() == 0
    assert torch.equal(cells[:, 6:14], Grid(8, 8, "disk").to_map(torch.ones(1, 32, 1))[0, 0])


def test_the_disk_of_a_padded_image_is_that_of_its_pixels():
    """209 pixels are padded to 14 patches of 16: outer cells of the padded image lie outside its circle."""
    padded, original = Grid(14, 14, "disk"), Grid(14, 14, "disk", diameter=209 / 16)
    assert set(original.cells().tolist()) < set(padded.cells().tolist())
    assert len(original.halve().cells()) > 0


def test_squared_radii_are_exact():
    assert Grid(2, 3).squared_radii().tolist() == [5, 1, 5, 5, 1, 5]
