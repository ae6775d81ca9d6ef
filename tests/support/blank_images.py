"""Feature maps with many equal tokens: blank areas, patterns, single odd tokens."""

import torch

from spectral_vmamba.ops.grid import Grid
from tests.support.traversals import smooth_maps


def degenerate_maps(side, channels=6, seed=0):
    """Name → feature map (1, c, side, side)."""
    photograph = smooth_maps(1, side, side, channels, seed)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(1, channels, side, side, generator=generator)
    blank, half = torch.full_like(photograph, 0.3), side // 2
    left = (torch.arange(side) < half).expand_as(photograph)
    corner = left & left.mT
    disk = (Grid(side, side).squared_radii() <= side**2).view(side, side).expand_as(photograph)
    odd_token = blank.clone()
    odd_token[..., side // 3, half] = -1
    return {
        "blank": blank,
        "half blank": torch.where(left, photograph, blank),
        "three quarters blank": torch.where(corner, photograph, blank),
        "checkerboard": ((torch.arange(side)[:, None] + torch.arange(side)) % 2).float().expand_as(photograph).clone(),
        "stripes": (torch.arange(side) % 2).float().expand_as(photograph).clone(),
        "black corners": torch.where(disk, photograph, 0.0),
        "tiles": photograph[..., :4, :4].repeat(1, 1, side, side)[..., :side, :side],
        "one odd token": odd_token,
        "posterized": photograph[:, :1].round().expand_as(photograph).clone(),
        "noise before its mean": torch.where(left, 0.0, noise),
        "faint noise before a blank": torch.where(corner, 0.01 * noise, 0.0),
    }
