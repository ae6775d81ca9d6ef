"""Visiting orders that depend on the grid but not on the image: raster, window, random and custom orders.

A *direction* names one order: `h` row by row, `v` column by column, `wK` window by window of K × K cells; the suffix
`_flip` reverses it. A *pattern* is the set of orders that are scanned together: a name from `PATTERNS`, `random`, a
tuple of directions, or a function from a Grid to its orders.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from spectral_vmamba.ops.grid import ABSENT, Grid, token_numbers
from spectral_vmamba.ops.tables import index_table, register_table

PATTERNS: dict[str, tuple[str, ...]] = {
    "raster": ("h",),
    "bidirectional": ("h", "h_flip"),  # Vim
    "cross": ("h", "v", "h_flip", "v_flip"),  # VMamba
    "window": ("h", "h_flip", "w2", "w2_flip"),  # LocalVim before its search
}
RANDOM_PATHS = 4  # of the pattern `random`: as many as `cross` has

Pattern = str | tuple[str, ...] | Callable[[Grid], Int[Tensor, "k l"]]


def pattern_orders(pattern: Pattern, grid: Grid) -> Int[Tensor, "k l"]:
    """The orders of a pattern on a grid; each row is a permutation of the tokens."""
    if pattern == "random":
        pattern = random_pattern(RANDOM_PATHS)
    if isinstance(pattern, _RandomPattern):
        return pattern(grid)
    if callable(pattern):
        orders = torch.as_tensor(pattern(grid), dtype=torch.int64)
        _check_permutations(orders, grid)
        return orders
    return grid.table("pattern", ",".join(pattern_directions(pattern)))


def pattern_directions(pattern: str | tuple[str, ...]) -> tuple[str, ...]:
    """The directions of a named pattern or a tuple of directions. Raises a ValueError for unknown names."""
    directions = PATTERNS.get(pattern, (pattern,)) if isinstance(pattern, str) else tuple(pattern)
    for direction in directions:
        _parse(direction)
    return directions


def direction_cells(direction: str, height: int, width: int) -> Int[np.ndarray, "l2"]:
    """The raster indices of the cells in the order of a direction.

    Windows that reach past the grid are padded below and to the right. Padding cells are `ABSENT` and keep their place
    in the order.
    """
    kind, size, flipped = _parse(direction)
    cells = np.arange(height * width).reshape(height, width)
    if kind == "v":
        cells = cells.T
    if kind == "w":
        below, right = -height % size, -width % size
        cells = np.pad(cells, ((0, below), (0, right)), constant_values=ABSENT)
        cells = cells.reshape(cells.shape[0] // size, size, cells.shape[1] // size, size).swapaxes(1, 2)
    order = cells.ravel()
    return order[::-1].copy() if flipped else order


def direction_tables(direction: str, height: int, width: int) -> tuple[Int[Tensor, "s"], Int[Tensor, "l"]]:
    """The cell of every step of a direction (h·w for padding cells), and the step of every cell."""
    sizes = (height, width)
    return index_table("direction_cells", sizes, direction), index_table("direction_steps", sizes, direction)


def concatenate_orders(pattern: Pattern, grid: Grid) -> tuple[Int[Tensor, "s"], Int[Tensor, "k l"]]:
    """A pattern's k orders as one sequence that visits every token k times (MSVMamba), and the steps of each token."""
    orders = pattern_orders(pattern, grid)
    paths, tokens = orders.shape
    starts = tokens * torch.arange(paths, device=orders.device)[:, None]
    return orders.flatten(), starts + orders.argsort(-1)


def random_pattern(paths: int, seed: int = 0) -> Callable[[Grid], Int[Tensor, "k l"]]:
    """A pattern of random orders that depend only on the seed and the number of tokens."""
    return _RandomPattern(paths, seed)


def random_permutations(tokens: int, paths: int, seed: int) -> Int[Tensor, "k l"]:
    """Random orders, the same for the same numbers."""
    return index_table("random", (tokens, paths, seed))


@dataclass(frozen=True)
class _RandomPattern:
    paths: int
    seed: int

    def __call__(self, grid: Grid) -> Int[Tensor, "k l"]:
        return random_permutations(len(grid.cells()), self.paths, self.seed)


def _parse(direction: str) -> tuple[str, int, bool]:
    name = direction.removesuffix("_flip")
    if name in ("h", "v"):
        return name, 1, name != direction
    if name[:1] == "w" and name[1:].isdecimal() and int(name[1:]) > 0:
        return "w", int(name[1:]), name != direction
    raise ValueError(
        f"unknown scan direction {direction!r}; expected h, v or wK (K: side of a window), with or without _flip, "
        f"or one of the patterns {', '.join(PATTERNS)}, random"
    )


def _check_permutations(orders: Tensor, grid: Grid) -> None:
    tokens = len(grid.cells())
    every = torch.arange(tokens).expand(orders.shape[0], tokens) if orders.dim() == 2 else None
    if every is None or orders.shape[1] != tokens or not torch.equal(orders.cpu().sort(-1).values, every):
        raise ValueError(
            f"expected orders (k, {tokens}) for this grid, each row a permutation of 0..{tokens - 1}; "
            f"the given function returned {tuple(orders.shape)}"
        )


@register_table("pattern")
def _pattern_table(sizes: tuple[int, ...], names: str, circle: float | None) -> np.ndarray:
    numbers = token_numbers(sizes, circle)
    cells = [direction_cells(name, *numbers.shape) for name in names.split(",")]
    orders = [numbers.ravel()[order[order != ABSENT]] for order in cells]
    return np.stack([order[order != ABSENT] for order in orders])


@register_table("direction_cells")
def _direction_cells_table(sizes: tuple[int, ...], name: str, diameter: float | None) -> np.ndarray:
    height, width = sizes
    cells = direction_cells(name, height, width)
    return np.where(cells == ABSENT, height * width, cells)


@register_table("direction_steps")
def _direction_steps_table(sizes: tuple[int, ...], name: str, diameter: float | None) -> np.ndarray:
    height, width = sizes
    cells = direction_cells(name, height, width)
    steps = np.empty(height * width, dtype=np.int64)
    present = np.flatnonzero(cells != ABSENT)
    steps[cells[present]] = present
    return steps


@register_table("random")
def _random_table(sizes: tuple[int, ...], names: str, diameter: float | None) -> np.ndarray:
    tokens, paths, seed = sizes
    generator = np.random.default_rng(seed)
    return np.stack([generator.permutation(tokens) for _ in range(paths)])
