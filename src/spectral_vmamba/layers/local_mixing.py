"""Depth-wise convolutions of tokens on their grid."""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.tables import index_table, register_table, table_array


class IsotropicConv(nn.Module):
    """A depth-wise convolution that is equivariant to quarter turns.

    Cells of the kernel that quarter turns map to each other share one weight: 3 weights for 3×3, 7 for 5×5.
    """

    def __init__(self, channels: int, kernel_size: int = 3):
        super().__init__()
        if kernel_size % 2 == 0:
            raise ValueError(f"expected an odd kernel size, got {kernel_size}")
        self.kernel_size = kernel_size
        orbits = int(table_array("quarter_turn_orbits", (kernel_size,)).max()) + 1
        bound = 1 / kernel_size  # the initial range of nn.Conv2d for this fan-in
        self.weight = nn.Parameter(torch.empty(channels, orbits).uniform_(-bound, bound))

    def forward(self, tokens: Float[Tensor, "b l d"], grid: Grid) -> Float[Tensor, "b l d"]:
        orbits = index_table("quarter_turn_orbits", (self.kernel_size,)).to(self.weight.device)
        kernel = self.weight[:, orbits].view(-1, 1, self.kernel_size, self.kernel_size)
        maps = F.conv2d(grid.to_map(tokens), kernel, padding=self.kernel_size // 2, groups=len(kernel))
        return grid.from_map(maps)


class DepthwiseConv(nn.Module):
    """A depth-wise convolution with an arbitrary kernel, as in VMamba: not equivariant."""

    def __init__(self, channels: int, kernel_size: int = 3):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size, padding=kernel_size // 2, groups=channels, bias=False)

    def forward(self, tokens: Float[Tensor, "b l d"], grid: Grid) -> Float[Tensor, "b l d"]:
        return grid.from_map(self.conv(grid.to_map(tokens)))


@register_table("quarter_turn_orbits")
def _quarter_turn_orbits(sizes: tuple[int, ...], names: str, diameter: float | None) -> np.ndarray:
    """The number of the orbit of each of the side × side cells under quarter turns."""
    (side,) = sizes
    cells = np.arange(side * side).reshape(side, side)
    smallest = np.stack([np.rot90(cells, quarters) for quarters in range(4)]).min(0)
    return np.unique(smallest, return_inverse=True)[1].ravel()
