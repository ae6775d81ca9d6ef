"""The mixers of Vim and LocalVim: they scan a sequence in several directions, each with its own parameters."""

from math import ceil

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.layers.s6 import S6
from spectral_vmamba.ops.orders import direction_tables
from spectral_vmamba.ops.selective_scan import Backend

GridSize = tuple[int, int]  # rows, columns


class Direction(nn.Module):
    """S6(SiLU(conv(x))) · SiLU(z), for tokens that are already in the order of the direction.

    The convolution is causal, depth-wise and of width 4: each token sees the previous three.
    """

    WIDTH = 4

    def __init__(self, channels: int, rank: int, state_size: int, backend: Backend = "auto"):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, self.WIDTH, groups=channels)
        self.s6 = S6(channels, rank, state_size, sets=1, backend=backend)

    def forward(self, x: Float[Tensor, "b l d"], z: Float[Tensor, "b l d"]) -> Float[Tensor, "b l d"]:
        batch, tokens = x.shape[:2]
        x = F.silu(self._convolve(x))
        order = torch.arange(tokens, device=x.device).expand(batch, 1, tokens)
        return self.s6(x, order) * F.silu(z)

    def _convolve(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b l d"]:
        """Computed as a 2-d convolution of one row.

        The tokens then already are a channels-last map, for which the CPU's depth-wise convolution is five times as
        fast as the 1-d one (measured, forward and backward).
        """
        row = F.pad(x, (0, 0, self.WIDTH - 1, 0)).unsqueeze(1).permute(0, 3, 1, 2)
        maps = F.conv2d(row, self.conv.weight.unsqueeze(2), self.conv.bias, groups=row.shape[1])
        return maps.squeeze(2).mT


class DirectionalMixer(nn.Module):
    """The projections around the directions: an inner width of twice `width`, and a gate for every channel."""

    def __init__(self, width: int, directions: int, state_size: int, backend: Backend):
        super().__init__()
        inner, rank = 2 * width, ceil(width / 16)
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        parts = [Direction(inner, rank, state_size, backend) for _ in range(directions)]
        self.directions = nn.ModuleList(parts)
        self.out_proj = nn.Linear(inner, width, bias=False)
        self.reset_directions(parts)

    def reset_directions(self, directions: list[Direction]) -> None:
        """Change Mamba's initialization of the directions as the published code does."""
        raise NotImplementedError


class VimMixer(DirectionalMixer):
    """The mean of a forward and a backward scan of a sequence of any tokens."""

    def __init__(self, width: int, state_size: int = 16, backend: Backend = "auto"):
        super().__init__(width, 2, state_size, backend)

    def reset_directions(self, directions: list[Direction]) -> None:
        """Only the forward scan starts from Mamba's small Δ."""
        nn.init.zeros_(directions[1].s6.dt_bias)

    def forward(self, x: Float[Tensor, "b l c"], grid: GridSize | None = None) -> Float[Tensor, "b l c"]:
        x, z = self.in_proj(x).chunk(2, dim=-1)
        forward, backward = self.directions
        y = forward(x, z) + backward(x.flip(1), z.flip(1)).flip(1)
        return self.out_proj(y / 2)


class LocalVimMixer(DirectionalMixer):
    """The sum of scans in named directions (see `ops.orders`) over the cells of a grid, each gated by channel.

    Windows that reach past the grid are padded with zeros, which are scanned like tokens and dropped afterwards.
    """

    def __init__(self, width: int, directions: tuple[str, ...], state_size: int = 16, backend: Backend = "auto"):
        super().__init__(width, len(directions), state_size, backend)
        self.names = tuple(directions)
        self.gate = ChannelGate(2 * width)
        nn.init.trunc_normal_(self.in_proj.weight, std=0.02)

    def reset_directions(self, directions: list[Direction]) -> None:
        """Projections start like all other linear layers, Δ starts around softplus(0)."""
        for direction in directions:
            nn.init.trunc_normal_(direction.s6.x_proj, std=0.02)
            nn.init.trunc_normal_(direction.s6.dt_proj, std=0.02)
            nn.init.zeros_(direction.s6.dt_bias)

    def forward(self, x: Float[Tensor, "b l c"], grid: GridSize) -> Float[Tensor, "b l c"]:
        xz = self.in_proj(x)
        scans = zip(self.names, self.directions, strict=True)
        return self.out_proj(sum(self.gate(_scan_direction(direction, name, xz, grid)) for name, direction in scans))


class ChannelGate(nn.Module):
    """y · sigmoid(W₂ GELU(W₁ mean over tokens of LayerNorm(y))); called BiAttn in LocalMamba."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.reduce = nn.Linear(channels, channels // 8)
        self.select = nn.Linear(channels // 8, channels)
        for linear in (self.reduce, self.select):
            nn.init.trunc_normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)

    def forward(self, y: Float[Tensor, "b l d"]) -> Float[Tensor, "b l d"]:
        summary = self.norm(y).mean(1, keepdim=True)
        return y * self.select(F.gelu(self.reduce(summary))).sigmoid()


def _scan_direction(
    direction: nn.Module, name: str, xz: Float[Tensor, "b l d2"], grid: GridSize
) -> Float[Tensor, "b l d"]:
    """Apply a direction to row-major tokens; the result is in row-major order again."""
    cells, steps = (table.to(xz.device) for table in direction_tables(name, *grid))
    if len(cells) > xz.shape[1]:
        xz = F.pad(xz, (0, 0, 0, 1))
    x, z = xz.index_select(1, cells).chunk(2, dim=-1)
    return direction(x, z).index_select(1, steps)
