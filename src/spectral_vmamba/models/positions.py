"""Position tables of sequences of patches that may have a class token in their middle."""

from math import isqrt

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.layers.directional import GridSize


def apart(x: Float[Tensor, "b s c"], class_token: bool) -> tuple[Float[Tensor, "b p c"], Float[Tensor, "b l c"]]:
    """The class token (none: of length 0) and the patches."""
    if not class_token:
        return x[:, :0], x
    middle = (x.shape[1] - 1) // 2
    return x[:, middle : middle + 1], torch.cat([x[:, :middle], x[:, middle + 1 :]], dim=1)


def joined(class_token: Float[Tensor, "b p c"], patches: Float[Tensor, "b l c"]) -> Float[Tensor, "b s c"]:
    middle = patches.shape[1] // 2
    return torch.cat([patches[:, :middle], class_token, patches[:, middle:]], dim=1)


def resampled(
    table: Float[Tensor, "1 s c"], class_token: bool, grid: GridSize, new_grid: GridSize
) -> Float[Tensor, "1 s2 c"]:
    """The table for another grid, bicubic; the class token's position stays what it is."""
    if grid == new_grid:
        return table
    token, patches = apart(table, class_token)
    maps = F.interpolate(patches.mT.unflatten(2, grid), size=new_grid, mode="bicubic")
    return joined(token, maps.flatten(2).mT)


def fitted(table: Float[Tensor, "1 s c"], class_token: bool, new_grid: GridSize) -> Float[Tensor, "1 s2 c"]:
    """A checkpoint's table for the grid of a model. One of another length is taken to be of a square grid; if it cannot
    be, it is returned as it is."""
    patches = table.shape[1] - class_token
    side = isqrt(max(patches, 0))
    if patches == new_grid[0] * new_grid[1] or side == 0 or side * side != patches:
        return table
    return resampled(table.float(), class_token, (side, side), new_grid).to(table.dtype)
