"""Position tables of patch sequences, with or without a class token in the middle."""

from math import isqrt

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.layers.directional import GridSize


def split_class_token(
    x: Float[Tensor, "b s c"], class_token: bool
) -> tuple[Float[Tensor, "b p c"], Float[Tensor, "b l c"]]:
    """Return the class token (p = 1, or p = 0 without one) and the patches."""
    if not class_token:
        return x[:, :0], x
    middle = (x.shape[1] - 1) // 2
    return x[:, middle : middle + 1], torch.cat([x[:, :middle], x[:, middle + 1 :]], dim=1)


def insert_class_token(class_token: Float[Tensor, "b p c"], patches: Float[Tensor, "b l c"]) -> Float[Tensor, "b s c"]:
    """Put the class token in the middle of the patches."""
    middle = patches.shape[1] // 2
    return torch.cat([patches[:, :middle], class_token, patches[:, middle:]], dim=1)


def resample_positions(
    table: Float[Tensor, "1 s c"], class_token: bool, grid: GridSize, new_grid: GridSize
) -> Float[Tensor, "1 s2 c"]:
    """Interpolate the patches' positions to another grid, bicubic. The class token's position is not changed."""
    if grid == new_grid:
        return table
    token, patches = split_class_token(table, class_token)
    maps = F.interpolate(patches.mT.unflatten(2, grid), size=new_grid, mode="bicubic")
    return insert_class_token(token, maps.flatten(2).mT)


def fit_positions(table: Float[Tensor, "1 s c"], class_token: bool, new_grid: GridSize) -> Float[Tensor, "1 s2 c"]:
    """Resample the position table of a checkpoint to the grid of a model.

    A table of another length is assumed to be of a square grid. If its length is not a square, it is returned
    unchanged, so that `load_state_dict` reports it.
    """
    patches = table.shape[1] - class_token
    side = isqrt(max(patches, 0))
    if patches == new_grid[0] * new_grid[1] or side == 0 or side * side != patches:
        return table
    return resample_positions(table.float(), class_token, (side, side), new_grid).to(table.dtype)
