"""Feature maps with spectral traversals, and checks of visiting orders."""

import torch
import torch.nn.functional as F

from spectral_vmamba.metrics.traversal_gap import traversal_gap
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.ranks import hash_ranks
from spectral_vmamba.ops.spectral import spectral_traversal
from spectral_vmamba.ops.turns import turn

SHAPES = [(14, 14), (7, 7), (10, 10), (5, 9), (1, 12), (2, 2), (1, 2), (1, 1), (8, 6)]


def smooth_maps(batch, height, width, channels=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(batch, channels, 3, 3, generator=generator)
    maps = F.interpolate(coarse, (height, width), mode="bilinear", align_corners=True)
    return maps + 0.05 * torch.randn(batch, channels, height, width, generator=generator)


def random_tokens(height=5, width=6, channels=16, batch=2, domain="square"):
    """Tokens in float64 and their spectral traversal."""
    grid = Grid(height, width, domain)
    x = torch.randn(batch, len(grid.cells()), channels, dtype=torch.float64)
    return x, spectral_traversal(x, grid)


def traverse(maps, domain="square", **options):
    grid = Grid(maps.shape[-2], maps.shape[-1], domain)
    return spectral_traversal(grid.from_map(maps), grid, **options)


def assert_permutations(orders):
    tokens = torch.arange(orders.shape[-1])
    assert torch.equal(orders.sort(-1).values, tokens.expand(orders.shape))


def assert_permutations_at_every_level(traversal) -> None:
    for _ in range(4):
        assert traversal.orders.shape[1] == 8
        assert_permutations(traversal.orders)
        steps = torch.arange(traversal.orders.shape[-1])
        assert torch.equal(traversal.inverses.gather(-1, traversal.orders), steps.expand(traversal.orders.shape))
        traversal = traversal.pool(torch.rand(traversal.content.shape))


def assert_turns_exactly(maps, levels=3, **options):
    """Quarter turns of the maps visit the same patches in the same order, also on pooled grids."""
    unturned = traverse(maps, **options)
    for quarters in (1, 2, 3):
        before, after = unturned, traverse(turn(maps, quarters), **options)
        for _ in range(levels):
            assert traversal_gap(before, after, 90 * quarters).same_steps.all()
            strengths = (maps.new_tensor(1.0) * hash_ranks(t.content) for t in (before, after))
            before, after = (t.pool(strength) for t, strength in zip((before, after), strengths, strict=True))
