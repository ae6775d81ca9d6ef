"""Visiting orders that know the grid but not the image: rasters, windows, random ones, and any of your own.

A *direction* names one order: `h` row by row, `v` column by column, `wK` window by window of K × K cells; with `_flip`
backwards. A *pattern* names the directions that are scanned together, is `random`, or is a function from a Grid to its
orders.
"""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from spectral_vmamba.ops.grid import Grid

PATTERNS: dict[str, tuple[str, ...]] = {
    "raster": ("h",),
    "bidirectional": ("h", "h_flip"),  # Vim
    "cross": ("h", "v", "h_flip", "v_flip"),  # VMamba
    "window": ("h", "h_flip", "w2", "w2_flip"),  # LocalVim before its search
}
RANDOM_PATHS = 4  # of the pattern `random`: as many as `cross` has
ABSENT = -1

Pattern = str | tuple[str, ...] | Callable[[Grid], Int[Tensor, "k l"]]


def pattern_orders(pattern: Pattern, grid: Grid) -> Int[Tensor, "k l"]:
    """The orders of a pattern's name, of a tuple of directions, or of a function; each row a permutation of tokens."""
    if pattern == "random":
        pattern = random_pattern(RANDOM_PATHS)
    if isinstance(pattern, _RandomPattern):
        return pattern(grid)
    if callable(pattern):
        orders = torch.as_tensor(pattern(grid), dtype=torch.int64)
        _check_permutations(orders, grid)
        return orders
    names = ",".join(directions_of(pattern))
    return _pattern_table(names, *astuple(grid), torch.device("cpu"))


def directions_of(pattern: str | tuple[str, ...]) -> tuple[str, ...]:
    """The directions a pattern names; an unknown name is answered with the known ones."""
    directions = PATTERNS.get(pattern, (pattern,)) if isinstance(pattern, str) else tuple(pattern)
    for direction in directions:
        _parse(direction)
    return directions


def direction_cells(direction: str, height: int, width: int) -> Int[np.ndarray, "l2"]:
    """The raster indices of the cells in the order of a direction.

    Windows that reach past the grid stand below and to the right of it; their missing cells are `ABSENT`, and come at
    their place in the order.
    """
    kind, size, flipped = _parse(direction)
    cells = np.arange(height * width).reshape(height, width)
    if kind == "v":
        cells = cells.T
    if kind == "w":
        below, beside = -height % size, -width % size
        cells = np.pad(cells, ((0, below), (0, beside)), constant_values=ABSENT)
        cells = cells.reshape(cells.shape[0] // size, size, cells.shape[1] // size, size).swapaxes(1, 2)
    order = cells.ravel()
    return order[::-1].copy() if flipped else order


def concatenated_order(pattern: Pattern, grid: Grid) -> tuple[Int[Tensor, "s"], Int[Tensor, "k l"]]:
    """A pattern's orders end to end, as one long order that visits every token as often (MSVMamba), and its inverse: at
    which steps each token is visited."""
    orders = pattern_orders(pattern, grid)
    paths, tokens = orders.shape
    starts = tokens * torch.arange(paths, device=orders.device)[:, None]
    return orders.flatten(), starts + orders.argsort(-1)


def random_pattern(paths: int, seed: int = 0) -> Callable[[Grid], Int[Tensor, "k l"]]:
    """Orders that know nothing of the grid either, fixed by the seed."""
    return _RandomPattern(paths, seed)


@dataclass(frozen=True)
class _RandomPattern:
    paths: int
    seed: int

    def __call__(self, grid: Grid) -> Int[Tensor, "k l"]:
        return random_permutations(len(grid.cells()), self.paths, self.seed)


def random_permutations(tokens: int, paths: int, seed: int) -> Int[Tensor, "k l"]:
    return _random_table(tokens, paths, seed, torch.device("cpu"))


def _parse(direction: str) -> tuple[str, int, bool]:
    name = direction.removesuffix("_flip")
    if name in ("h", "v"):
        return name, 1, name != direction
    if name[:1] == "w" and name[1:].isdecimal() and int(name[1:]) > 0:
        return "w", int(name[1:]), name != direction
    raise ValueError(
        f"unknown scan direction {direction!r}; expected h, v or wK with K a window's side, with or without _flip, "
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


# As the grid's tables: numbers made by numpy behind an op, so that compilers see a tensor of known shape.


@lru_cache(maxsize=256)
def _pattern_numbers(names: str, grid: Grid) -> np.ndarray:
    cells = grid.numbers("cells")
    token = np.full(grid.height * grid.width, ABSENT)
    token[cells] = np.arange(len(cells))
    orders = [direction_cells(name, grid.height, grid.width) for name in names.split(",")]
    tokens = [token[order[order != ABSENT]] for order in orders]
    return np.stack([order[order != ABSENT] for order in tokens])


@torch.library.custom_op(
    "spectral_vmamba::pattern_table",
    mutates_args=(),
    schema="(str names, int rows, int columns, str domain, int level, float? diameter, Device device) -> Tensor",
    device_types="cpu",
)
def _pattern_table(names, rows, columns, domain, level, diameter, device):
    return torch.tensor(_pattern_numbers(names, Grid(rows, columns, domain, level, diameter)))


@_pattern_table.register_fake
def _(names, rows, columns, domain, level, diameter, device):
    shape = _pattern_numbers(names, Grid(int(rows), int(columns), domain, level, diameter)).shape
    return torch.empty(shape, dtype=torch.int64, device=device)


@torch.library.custom_op(
    "spectral_vmamba::random_table",
    mutates_args=(),
    schema="(int tokens, int paths, int seed, Device device) -> Tensor",
    device_types="cpu",
)
def _random_table(tokens, paths, seed, device):
    generator = np.random.default_rng(seed)
    return torch.from_numpy(np.stack([generator.permutation(tokens) for _ in range(paths)]))


@_random_table.register_fake
def _(tokens, paths, seed, device):
    return torch.empty(paths, tokens, dtype=torch.int64, device=device)
