"""Rotary position embedding on a grid, as in LocalVim."""

import torch
from jaxtyping import Float
from torch import Tensor

BASE = 10000.0
TRAINED_SIDE = 14  # 224 px in patches of 16; positions on other sides are scaled to it


def apply_rotary_embedding(x: Float[Tensor, "b l c"], rows: int, columns: int) -> Float[Tensor, "b l c"]:
    """Rotate adjacent pairs of channels by angles proportional to the row (first half) or the column (second half).

    Pair i of a half rotates by position · 10000^(−2i / (c/2)). Linear in x, without parameters.
    """
    angles = _angles(rows, columns, x)
    cos, sin = angles.cos(), angles.sin()
    first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-1).flatten(-2)


def _angles(rows: int, columns: int, like: Float[Tensor, "b l c"]) -> Float[Tensor, "l c_half"]:
    exact = {"device": like.device, "dtype": torch.promote_types(like.dtype, torch.float32)}
    half = like.shape[-1] // 2
    frequencies = BASE ** (-torch.arange(0, half, 2, **exact) / half)
    by_row, by_column = (
        torch.outer(torch.arange(side, **exact) * (TRAINED_SIDE / side), frequencies) for side in (rows, columns)
    )
    by_row, by_column = by_row[:, None].expand(-1, columns, -1), by_column[None].expand(rows, -1, -1)
    return torch.cat([by_row, by_column], dim=-1).flatten(0, 1)
