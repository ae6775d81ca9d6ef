"""Grid: which cells of the patch grid carry tokens, and how they pool. Plain numbers, so static for compilers."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

Domain = Literal["square", "disk"]


@dataclass(frozen=True)
class Grid:
    """The tokens of a image of `rows` × `columns` patches after `level` halvings.

    `domain="square"`: every cell is a token. `"disk"`: only cells that lie wholly inside a circle about the center,
    the inscribed one unless its `diameter` (in patches) is given; after a halving, those that come from at least one
    such cell. Tokens are numbered in raster order ("grid order").
    """

    rows: int
    columns: int
    domain: Domain = "square"
    level: int = 0
    diameter: float | None = None

    @property
    def height(self) -> int:
        return _halved(self.rows, self.level)

    @property
    def width(self) -> int:
        return _halved(self.columns, self.level)

    def halved(self) -> "Grid":
        return replace(self, level=self.level + 1)

    def turned(self, quarters: int) -> "Grid":
        return replace(self, rows=self.columns, columns=self.rows) if quarters % 2 else self

    def cells(self) -> Int[Tensor, "l"]:
        """The raster index of each token's cell."""
        return self._table("cells")

    def squared_radii(self) -> Int[Tensor, "l"]:
        """Four times the squared distance of each token from the center, in cells: an exact integer."""
        return self._table("squared_radii")

    def windows(self) -> Int[Tensor, "l_half w"]:
        """For each token of `halved()`, the tokens it pools; absent ones are numbered l, one past the last token.

        An even side pools 2 cells with stride 2, an odd side 3 cells with stride 2 around each second one: both are
        unchanged by quarter turns of the grid.
        """
        return self._table("windows")

    def numbers(self, table: str) -> np.ndarray:
        """One of the tables above as plain numbers, also where compilers look on."""
        return _numbers(table, self.rows, self.columns, self._circle, self.level)

    def _table(self, name: str) -> Tensor:
        return _grid_table(name, self.rows, self.columns, self._circle, self.level, torch.device("cpu"))

    @property
    def _circle(self) -> float | None:
        diameter = min(self.rows, self.columns) if self.diameter is None else self.diameter
        return float(diameter) if self.domain == "disk" else None

    def to_map(self, tokens: Shaped[Tensor, "b l c"]) -> Shaped[Tensor, "b c h w"]:
        """Tokens on their cells, zero on cells without one."""
        batch, _, channels = tokens.shape
        if self.domain != "square":
            cells = self.cells().to(tokens.device)
            tokens = tokens.new_zeros(batch, self.height * self.width, channels).index_copy(1, cells, tokens)
        return tokens.mT.reshape(batch, channels, self.height, self.width)

    def from_map(self, maps: Shaped[Tensor, "b c h w"]) -> Shaped[Tensor, "b l c"]:
        tokens = maps.flatten(2).mT
        return tokens if self.domain == "square" else tokens.index_select(1, self.cells().to(maps.device))


def mask_outside_circle(images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
    """Zero the pixels outside the inscribed circle."""
    y, x = (torch.arange(side, device=images.device) * 2 - (side - 1) for side in images.shape[-2:])
    inside = y[:, None] ** 2 + x**2 <= min(images.shape[-2:]) ** 2
    return torch.where(inside, images, 0.0)


# The tables below depend on numbers alone. They are made by numpy behind an op: compilers see a tensor of known shape.


def _halved(side: int, times: int) -> int:
    for _ in range(times):
        side = (side + 1) // 2
    return side


def _mask(rows: int, columns: int, circle: float | None, level: int) -> np.ndarray:
    if circle is None:
        return np.ones((_halved(rows, level), _halved(columns, level)), dtype=bool)
    if level:
        return np.asarray(_window_map(rows, columns, circle, level - 1).max(-1) >= 0)
    far_corner = (np.abs(_doubled_offsets(rows)) + 1)[:, None] ** 2 + (np.abs(_doubled_offsets(columns)) + 1) ** 2
    inside = far_corner <= circle**2
    nearest = far_corner == far_corner.min()  # grids of one or two cells a side lie on the circle's edge
    return inside | nearest


def _doubled_offsets(side: int) -> np.ndarray:
    return 2 * np.arange(side) - (side - 1)


def _window_map(rows: int, columns: int, circle: float | None, level: int) -> np.ndarray:
    """(h', w', window) numbers of pooled tokens, −1 where there is none."""
    mask = _mask(rows, columns, circle, level)
    number = np.where(mask, mask.cumsum().reshape(mask.shape) - 1, -1)
    kernels = [2 if side % 2 == 0 else 3 for side in mask.shape]
    padded = np.pad(number, [(kernel // 3, kernel // 3) for kernel in kernels], constant_values=-1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernels)[::2, ::2]
    return windows.reshape(*windows.shape[:2], -1)


def _cells(rows: int, columns: int, circle: float | None, level: int) -> np.ndarray:
    return np.flatnonzero(_mask(rows, columns, circle, level))


def _squared_radii(rows: int, columns: int, circle: float | None, level: int) -> np.ndarray:
    mask = _mask(rows, columns, circle, level)
    height, width = mask.shape
    return (_doubled_offsets(height)[:, None] ** 2 + _doubled_offsets(width) ** 2)[mask]


def _windows(rows: int, columns: int, circle: float | None, level: int) -> np.ndarray:
    windows = _window_map(rows, columns, circle, level)
    windows = windows[(windows >= 0).any(-1)]
    tokens = _mask(rows, columns, circle, level).sum()
    return np.where(windows < 0, tokens, windows)


_TABLES = {"cells": _cells, "squared_radii": _squared_radii, "windows": _windows}


@lru_cache(maxsize=256)
def _numbers(table: str, rows: int, columns: int, circle: float | None, level: int) -> np.ndarray:
    return _TABLES[table](rows, columns, circle, level).astype(np.int64)


@torch.library.custom_op(
    "spectral_vmamba::grid_table",
    mutates_args=(),
    schema="(str table, int rows, int columns, float? circle, int level, Device device) -> Tensor",
    device_types="cpu",
)
def _grid_table(table, rows, columns, circle, level, device):
    return torch.tensor(_numbers(table, rows, columns, circle, level))


@_grid_table.register_fake
def _(table, rows, columns, circle, level, device):
    shape = _numbers(table, int(rows), int(columns), circle, level).shape
    return torch.empty(shape, dtype=torch.int64, device=device)
