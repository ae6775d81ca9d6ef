"""Halving the grid between stages."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.ops.traversal import Traversal


class Downsample(nn.Module):
    """Linear c → 2c, then a max-pool that quarter turns leave unchanged, then LayerNorm.

    In each window the token with the longest feature vector hands its place along the eigenvectors on. The paper's code
    keeps the top-left cell of every 2×2, which is another cell once the image has turned.
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
        nothing = x.new_full((x.shape[0], 1, x.shape[2]), -torch.inf)
        members = torch.cat([x, nothing], dim=1).index_select(1, windows.flatten()).unflatten(1, windows.shape)
        pooled = members.amax(2)
        return self.norm(pooled), traversal.pool(x.detach().square().sum(-1))


class ConvDownsample(nn.Module):
    """A 3×3 convolution of stride 2, then LayerNorm: VMamba's."""

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
