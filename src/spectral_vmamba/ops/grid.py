"""Grid: which cells of the patch grid carry tokens, and how they pool. Plain numbers, so static for compilers."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Int, Shaped
from torch import Tensor

from spectral_vmamba.ops.tables import index_table, register_table

Domain = Literal["square", "disk"]
ABSENT = -1  # in place of the number of a cell or token that does not exist


@dataclass(frozen=True)
class Grid:
    """The tokens of an image of `rows` × `columns` patches after `level` halvings.

    With `domain="square"` every cell is a token. With `"disk"` only cells that lie wholly inside a circle about the
    center are; `diameter` is in patches and defaults to that of the inscribed circle. A cell of a halved grid is a
    token if it pools at least one token. Tokens are numbered in raster order ("grid order").
    """

    rows: int
    columns: int
    domain: Domain = "square"
    level: int = 0
    diameter: float | None = None

    @property
    def height(self) -> int:
        return _halve(self.rows, self.level)

    @property
    def width(self) -> int:
        return _halve(self.columns, self.level)

    def halve(self) -> "Grid":
        return replace(self, level=self.level + 1)

    def turn(self, quarters: int) -> "Grid":
        return replace(self, rows=self.columns, columns=self.rows) if quarters % 2 else self

    def cells(self) -> Int[Tensor, "l"]:
        """The raster index of each token's cell."""
        return self.table("cells")

    def squared_radii(self) -> Int[Tensor, "l"]:
        """Four times the squared distance of each token from the center, in cells: an exact integer."""
        return self.table("squared_radii")

    def windows(self) -> Int[Tensor, "l_half w"]:
        """For each token of `halve()`, the tokens that it pools; l, one past the last token, stands for missing ones.

        An even side pools 2 cells with stride 2, an odd side 3 cells with stride 2 and padding 1. Both are unchanged
        by quarter turns of the grid.
        """
        return self.table("windows")

    def corners(self) -> Int[Tensor, "l_half"]:
        """For each token of `halve()`, the token in the even row and column that it replaces. Of a square domain."""
        return self.table("corners")

    def table(self, name: str, names: str = "") -> Int[Tensor, "..."]:
        """A registered index table of this grid (see `ops.tables`)."""
        return index_table(name, (self.rows, self.columns, self.level), names, self._circle)

    @property
    def _circle(self) -> float | None:
        diameter = min(self.rows, self.columns) if self.diameter is None else self.diameter
        return float(diameter) if self.domain == "disk" else None

    def to_map(self, tokens: Shaped[Tensor, "b l c"]) -> Shaped[Tensor, "b c h w"]:
        """Put tokens on their cells; cells without a token are zero."""
        batch, _, channels = tokens.shape
        if self.domain != "square":
            cells = self.cells().to(tokens.device)
            tokens = tokens.new_zeros(batch, self.height * self.width, channels).index_copy(1, cells, tokens)
        return tokens.mT.reshape(batch, channels, self.height, self.width)

    def from_map(self, maps: Shaped[Tensor, "b c h w"]) -> Shaped[Tensor, "b l c"]:
        """Read the tokens from their cells, in grid order."""
        tokens = maps.flatten(2).mT
        return tokens if self.domain == "square" else tokens.index_select(1, self.cells().to(maps.device))


def token_numbers(sizes: tuple[int, ...], circle: float | None) -> Int[np.ndarray, "h w"]:
    """The number of each cell's token, or ABSENT. `sizes`: rows, columns and level; without a circle, all cells."""
    mask = _token_mask(sizes, circle)
    return np.where(mask, mask.cumsum().reshape(mask.shape) - 1, ABSENT)


def _token_mask(sizes: tuple[int, ...], circle: float | None) -> np.ndarray:
    rows, columns, level = sizes
    if circle is None:
        return np.ones((_halve(rows, level), _halve(columns, level)), dtype=bool)
    if level:
        return np.asarray(_pooled_tokens((rows, columns, level - 1), circle).max(-1) != ABSENT)
    far_corner = (np.abs(_doubled_offsets(rows)) + 1)[:, None] ** 2 + (np.abs(_doubled_offsets(columns)) + 1) ** 2
    inside = far_corner <= circle**2
    nearest = far_corner == far_corner.min()  # in grids with sides of one or two cells every cell crosses the circle
    return inside | nearest


def _halve(side: int, times: int) -> int:
    for _ in range(times):
        side = (side + 1) // 2
    return side


def _doubled_offsets(side: int) -> np.ndarray:
    """Twice the distance of each cell from the middle of its row: an integer for odd and even sides."""
    return 2 * np.arange(side) - (side - 1)


def _pooled_tokens(sizes: tuple[int, ...], circle: float | None) -> np.ndarray:
    """(h', w', window) numbers of the tokens that each cell of the halved grid pools, or ABSENT."""
    numbers = token_numbers(sizes, circle)
    kernels = [2 if side % 2 == 0 else 3 for side in numbers.shape]
    padded = np.pad(numbers, [(kernel // 3, kernel // 3) for kernel in kernels], constant_values=ABSENT)
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernels)[::2, ::2]
    return windows.reshape(*windows.shape[:2], -1)


@register_table("cells")
def _cells(sizes: tuple[int, ...], names: str, circle: float | None) -> np.ndarray:
    return np.flatnonzero(_token_mask(sizes, circle))


@register_table("squared_radii")
def _squared_radii(sizes: tuple[int, ...], names: str, circle: float | None) -> np.ndarray:
    mask = _token_mask(sizes, circle)
    height, width = mask.shape
    return (_doubled_offsets(height)[:, None] ** 2 + _doubled_offsets(width) ** 2)[mask]


@register_table("corners")
def _corners(sizes: tuple[int, ...], names: str, circle: float | None) -> np.ndarray:
    return token_numbers(sizes, circle)[::2, ::2].ravel()


@register_table("windows")
def _windows(sizes: tuple[int, ...], names: str, circle: float | None) -> np.ndarray:
    windows = _pooled_tokens(sizes, circle)
    windows = windows[(windows != ABSENT).any(-1)]
    tokens = _token_mask(sizes, circle).sum()
    return np.where(windows == ABSENT, tokens, windows)
