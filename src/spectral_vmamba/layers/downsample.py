"""Layers that halve the grid between stages."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.ops.traversal import Traversal


class Downsample(nn.Module):
    """Linear c → 2c, then a max-pool that commutes with quarter turns, then LayerNorm.

    The new token takes its ranks along the eigenvectors from the longest feature vector of its window. The paper's code
    takes them from the top-left cell of every 2×2, which is a different cell once the image is turned.
    """

    def __init__(self, width: int, new_width: int):
        super().__init__()
        self.widen = nn.Linear(width, new_width)
        self.norm = nn.LayerNorm(new_width)

    def forward(
        self, x: Float[Tensor, "b l c"], traversal: Traversal
    ) -> tuple[Float[Tensor, "b l_half c2"], Traversal]:
        x = self.widen(x)
        windows = traversal.grid.windows().to(x.device)
        absent = x.new_full((x.shape[0], 1, x.shape[2]), -torch.inf)
        members = torch.cat([x, absent], dim=1).index_select(1, windows.flatten()).unflatten(1, windows.shape)
        pooled = members.amax(2)
        return self.norm(pooled), traversal.pool(x.detach().square().sum(-1))


class ConvDownsample(nn.Module):
    """A 3×3 convolution of stride 2, then LayerNorm, as in VMamba."""

    def __init__(self, width: int, new_width: int):
        super().__init__()
        self.conv = nn.Conv2d(width, new_width, 3, stride=2, padding=1)
        self.norm = nn.LayerNorm(new_width)

    def forward(
        self, x: Float[Tensor, "b l c"], traversal: Traversal
    ) -> tuple[Float[Tensor, "b l_half c2"], Traversal]:
        halved = traversal.pool(x.detach().square().sum(-1))
        maps = self.conv(traversal.grid.to_map(x))
        return self.norm(halved.grid.from_map(maps)), halved
