"""The layers of MSVMamba: a mixer that scans two resolutions, a convolutional MLP, Swin's patch merging."""

from math import ceil

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from spectral_vmamba.layers.s6 import S6
from spectral_vmamba.layers.stems import padding_for
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.orders import concatenate_orders
from spectral_vmamba.ops.selective_scan import Backend
from spectral_vmamba.ops.traversal import Traversal

COARSE_DIRECTIONS = ("h_flip", "v", "v_flip")


class MultiScaleMixer(nn.Module):
    """One scan of the full map along the traversal (row by row in MSVMamba), three of a map of half the size.

    The three coarse orders are concatenated to one sequence and scanned at once: the state carries over from one to the
    next. Both resolutions have their own scan parameters and share one LayerNorm. Their sum is weighted by
    squeeze-excite and gated.
    """

    def __init__(self, width: int, expand: float = 2.0, state_size: int = 1, backend: Backend = "auto"):
        super().__init__()
        inner, rank = int(width * expand), ceil(width / 16)
        self.in_proj = nn.Linear(width, 2 * inner, bias=False)
        self.fine_conv = nn.Conv2d(inner, inner, 3, padding=1, groups=inner)
        self.coarse_conv = nn.Conv2d(inner, inner, 7, stride=2, padding=3, groups=inner)
        self.fine_scan = S6(inner, rank, state_size, sets=1, backend=backend)
        self.coarse_scan = S6(inner, rank, state_size, sets=1, backend=backend)
        self.out_norm = nn.LayerNorm(inner)
        self.excite = SqueezeExcite(inner)
        self.out_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Float[Tensor, "b l c"], traversal: Traversal) -> Float[Tensor, "b l c"]:
        x, gate = self.in_proj(x).chunk(2, dim=-1)
        maps = traversal.grid.to_map(x)
        y = self.fine(maps, traversal) + self.coarse(maps, traversal.grid)
        return self.out_proj(self.excite(y) * F.silu(gate))

    def fine(self, maps: Float[Tensor, "b d h w"], traversal: Traversal) -> Float[Tensor, "b l d"]:
        tokens = F.silu(traversal.grid.from_map(self.fine_conv(maps)))
        return self.out_norm(self.fine_scan(tokens, traversal.orders))

    def coarse(self, maps: Float[Tensor, "b d h w"], grid: Grid) -> Float[Tensor, "b l d"]:
        half = grid.halve()
        tokens = F.silu(half.from_map(self.coarse_conv(maps)))
        order, steps_by_token = (table.to(maps.device) for table in concatenate_orders(COARSE_DIRECTIONS, half))
        visits = tokens.index_select(1, order)
        steps = torch.arange(visits.shape[1], device=maps.device).expand(visits.shape[0], 1, -1)
        merged = _sum_visits(self.out_norm(self.coarse_scan(visits, steps)), steps_by_token)
        size = (grid.height, grid.width)
        return grid.from_map(F.interpolate(half.to_map(merged), size, mode="bilinear", align_corners=False))


def _sum_visits(visits: Float[Tensor, "b s d"], steps: Int[Tensor, "k l"]) -> Float[Tensor, "b l d"]:
    """Sum the k visits of each token, which are at the given steps; the result is in grid order."""
    return visits.index_select(1, steps.flatten()).unflatten(1, tuple(steps.shape)).sum(1)


class SqueezeExcite(nn.Module):
    """x · sigmoid(W₂ ReLU(W₁ mean(x))), with the mean over the tokens."""

    def __init__(self, channels: int, reduction: int = 8):
        super().__init__()
        self.squeeze = nn.Linear(channels, max(channels // reduction, 1), bias=False)
        self.expand = nn.Linear(max(channels // reduction, 1), channels, bias=False)

    def forward(self, x: Float[Tensor, "b l d"]) -> Float[Tensor, "b l d"]:
        return x * self.expand(F.relu(self.squeeze(x.mean(1, keepdim=True)))).sigmoid()


class ConvFFN(nn.Module):
    """Widen, add a 3×3 depth-wise convolution of the widened map, apply GELU, narrow.

    Uses 1×1 convolutions in place of Linear layers: the same arithmetic, with the initial weights of convolutions.
    """

    def __init__(self, width: int, ratio: float = 2.0):
        super().__init__()
        hidden = int(width * ratio)
        self.widen = nn.Conv2d(width, hidden, 1)
        self.depthwise = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden)
        self.narrow = nn.Conv2d(hidden, width, 1)

    def forward(self, x: Float[Tensor, "b l c"], grid: Grid) -> Float[Tensor, "b l c"]:
        maps = self.widen(grid.to_map(x))
        return grid.from_map(self.narrow(F.gelu(maps + self.depthwise(maps))))


class MultiScaleBlock(nn.Module):
    """x = x + mixer(norm(x));  x = x + ffn(norm(x))."""

    def __init__(self, width: int, mixer: MultiScaleMixer, drop_path: nn.Module):
        super().__init__()
        self.mixer_norm = nn.LayerNorm(width)
        self.mixer = mixer
        self.ffn_norm = nn.LayerNorm(width)
        self.ffn = ConvFFN(width)
        self.drop_path = drop_path

    def forward(self, x: Float[Tensor, "b l c"], traversal: Traversal) -> Float[Tensor, "b l c"]:
        x = x + self.drop_path(self.mixer(self.mixer_norm(x), traversal))
        return x + self.drop_path(self.ffn(self.ffn_norm(x), traversal.grid))


class PatchMerging(nn.Module):
    """Concatenate the four cells of every 2×2, LayerNorm, Linear, as in Swin. Odd sides are padded with zeros.

    Without `halve`, there is a 2×2 at every cell, and one row and column of zeros after the last ones.
    """

    def __init__(self, width: int, new_width: int, halve: bool = True):
        super().__init__()
        self.halve = halve
        self.norm = nn.LayerNorm(4 * width)
        self.reduction = nn.Linear(4 * width, new_width, bias=False)

    def forward(
        self, x: Float[Tensor, "b l c"], traversal: Traversal
    ) -> tuple[Float[Tensor, "b l_half c2"], Traversal]:
        maps = traversal.grid.to_map(x)
        if self.halve:
            traversal = traversal.pool(x.detach().square().sum(-1))
            right, below = padding_for(maps.shape[-1], 2), padding_for(maps.shape[-2], 2)
            maps = F.pad(maps, (0, right, 0, below))
            top, bottom = maps[..., ::2, :], maps[..., 1::2, :]
            columns = (slice(None, None, 2), slice(1, None, 2))
        else:
            maps = F.pad(maps, (0, 1, 0, 1))
            top, bottom = maps[..., :-1, :], maps[..., 1:, :]
            columns = (slice(None, -1), slice(1, None))
        four = torch.cat([rows[..., each] for each in columns for rows in (top, bottom)], dim=1)
        return self.reduction(self.norm(traversal.grid.from_map(four))), traversal
