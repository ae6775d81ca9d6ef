"""Downsampling pools features and ranks in the same windows."""

import torch
import torch.nn.functional as F

from spectral_vmamba.layers import Downsample
from tests.support.traversals import random_tokens


def test_downsample_pools_features_and_orders_together():
    layer = Downsample(4, 8).double()
    x, traversal = random_tokens(7, 7, 4)
    pooled, halved = layer(x, traversal)
    wide = layer.widen(x)
    maps = F.max_pool2d(wide.mT.view(2, 8, 7, 7), 3, 2, 1)
    assert torch.equal(pooled, layer.norm(maps.flatten(2).mT))
    strongest = wide.square().sum(-1)
    windows = traversal.grid.windows()
    padded = torch.cat([strongest, torch.full((2, 1), -torch.inf)], 1)[:, windows]
    winner = windows.expand(2, -1, -1).gather(-1, padded.argmax(-1, keepdim=True))[..., 0]
    expected = traversal.ranks.gather(-1, winner[:, None].expand(2, 4, 16))
    assert torch.equal(halved.ranks, expected)
