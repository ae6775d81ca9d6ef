"""Layers that halve the grid between stages."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.ops.traversal import Traversal


class Downsample(nn.Module):
    """Linear c → 2c, then a max-pool that commutes with quarter turns, then LayerNorm. Without `halve`, no max-pool.

    The new token takes its ranks along the eigenvectors from the longest feature vector of its window.
    """

    def __init__(self, width: int, new_width: int, halve: bool = True):
        super().__init__()
        self.halve = halve
        self.widen = nn.Linear(width, new_width)
        self.norm = nn.LayerNorm(new_width)

    def forward(
        self, x: Float[Tensor, "b l c"], traversal: Traversal
    ) -> tuple[Float[Tensor, "b l_half c2"], Traversal]:
        x = self.widen(x)
        if not self.halve:
            return self.norm(x), traversal
        pooled, halved = self.pool(x, traversal)
        return self.norm(pooled), halved

    def pool(self, x: Float[Tensor, "b l c"], traversal: Traversal) -> tuple[Float[Tensor, "b l_half c2"], Traversal]:
        return max_pool(x, traversal)


class CornerDownsample(Downsample):
    """The authors': the features and ranks of the top-left cell of every 2×2, another cell once the image is turned."""

    def pool(self, x: Float[Tensor, "b l c"], traversal: Traversal) -> tuple[Float[Tensor, "b l_half c2"], Traversal]:
        corners = traversal.grid.corners().to(x.device)
        return x.index_select(1, corners), traversal.select(corners)


def max_pool(x: Float[Tensor, "b l c"], traversal: Traversal) -> tuple[Float[Tensor, "b l_half c"], Traversal]:
    """Halve the grid: the maximum of each window (`Grid.windows`), which commutes with quarter turns."""
    windows = traversal.grid.windows().to(x.device)
    absent = x.new_full((x.shape[0], 1, x.shape[2]), -torch.inf)
    members = torch.cat([x, absent], dim=1).index_select(1, windows.flatten()).unflatten(1, windows.shape)
    return members.amax(2), traversal.pool(x.detach().square().sum(-1))


class ConvDownsample(nn.Module):
    """A 3×3 convolution of stride 2, or 1 without `halve`, then LayerNorm, as in VMamba."""

    def __init__(self, width: int, new_width: int, halve: bool = True):
        super().__init__()
        self.halve = halve
        self.conv = nn.Conv2d(width, new_width, 3, stride=2 if halve else 1, padding=1)
        self.norm = nn.LayerNorm(new_width)

    def forward(
        self, x: Float[Tensor, "b l c"], traversal: Traversal
    ) -> tuple[Float[Tensor, "b l_half c2"], Traversal]:
        maps = self.conv(traversal.grid.to_map(x))
        if self.halve:
            traversal = traversal.pool(x.detach().square().sum(-1))
        return self.norm(traversal.grid.from_map(maps)), traversal
