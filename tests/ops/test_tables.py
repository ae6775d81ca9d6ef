"""Index tables behind one op: the same arrays in eager code, compiled graphs and exported programs."""

import numpy as np
import pytest
import torch

from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.orders import direction_tables, pattern_orders, random_permutations
from spectral_vmamba.ops.tables import index_table, register_table, table_array

GRIDS = [Grid(5, 7), Grid(6, 6, "disk"), Grid(9, 8, "disk", 1, 7.5)]
TABLES = {
    "cells": Grid.cells,
    "radii": Grid.squared_radii,
    "windows": Grid.windows,
    "pattern": lambda grid: pattern_orders(("v", "w2_flip"), grid),
    "random": lambda grid: random_permutations(len(grid.cells()), 3, 1),
    "direction cells": lambda grid: direction_tables("w2", grid.rows, grid.columns)[0],
    "direction steps": lambda grid: direction_tables("w2", grid.rows, grid.columns)[1],
}


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_compiled_tables_equal_eager_ones(grid):
    torch.compiler.reset()
    compiled = torch.compile(
        lambda: [table(grid) + 1 for table in TABLES.values()], fullgraph=True, backend="aot_eager"
    )
    for name, result in zip(TABLES, compiled(), strict=True):
        assert torch.equal(result, TABLES[name](grid) + 1), name


def test_compiles_with_dynamic_sizes():
    """The number of rows and columns comes from the shape of an input."""

    def visit(maps):
        grid = Grid(maps.shape[-2], maps.shape[-1], "disk")
        return grid.from_map(maps)[:, pattern_orders("cross", grid)]

    compiled = torch.compile(visit, fullgraph=True, dynamic=True, backend="aot_eager")
    for shape in [(4, 5), (5, 6), (7, 3)]:
        maps = torch.randn(2, 3, *shape)
        assert torch.equal(compiled(maps), visit(maps))


def test_exports():
    class Cells(torch.nn.Module):
        def forward(self, tokens):
            return Grid(5, 5, "disk").to_map(tokens)

    tokens = torch.randn(2, len(Grid(5, 5, "disk").cells()), 3)
    program = torch.export.export(Cells(), (tokens,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    assert torch.equal(program.module()(tokens[:1]), Grid(5, 5, "disk").to_map(tokens[:1]))


@pytest.mark.parametrize("arguments", [("cells", [4, 5, 1], "", 4.0), ("pattern", [3, 3, 0], "h,v_flip", None)])
def test_opcheck(arguments):
    torch.library.opcheck(torch.ops.spectral_vmamba.index_table, (*arguments, torch.device("cpu")))


def test_a_table_is_computed_once_and_copied():
    calls = []

    @register_table("test_a_table_is_computed_once_and_copied")
    def _(sizes, names, diameter):
        calls.append((sizes, names, diameter))
        return np.arange(sizes[0])

    arguments = ("test_a_table_is_computed_once_and_copied", (4,), "name", 2.5)
    first = index_table(*arguments)
    first.zero_()
    assert index_table(*arguments).tolist() == table_array(*arguments).tolist() == [0, 1, 2, 3]
    assert calls == [((4,), "name", 2.5)]
