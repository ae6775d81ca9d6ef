"""An embedding of the distance from the center, the only position that rotations preserve."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.ops.grid import Grid


class RadiusEmbedding(nn.Module):
    """A vector for the distance of each token from the center, interpolated in a learned table; any grid size."""

    def __init__(self, channels: int, bins: int = 8):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(bins, channels))

    def forward(self, grid: Grid) -> Float[Tensor, "l c"]:
        farthest = max((grid.height - 1) ** 2 + (grid.width - 1) ** 2, 1)
        radii = (grid.squared_radii().to(self.table.device, self.table.dtype) / farthest).sqrt()
        position = radii * (len(self.table) - 1)
        lower = position.floor().clamp(max=len(self.table) - 2)
        share = (position - lower)[:, None]
        lower = lower.to(torch.int64)
        return torch.lerp(self.table[lower], self.table[lower + 1], share)
