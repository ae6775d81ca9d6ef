"""The radius embedding."""

import torch
from torch import nn

from spectral_vmamba.layers import RadiusEmbedding
from spectral_vmamba.ops.grid import Grid


def test_the_radius_embedding_depends_on_the_radius_only():
    embedding = RadiusEmbedding(3).double()
    nn.init.normal_(embedding.table)
    grid = Grid(6, 8)
    values, radii = embedding(grid), grid.squared_radii()
    assert values.shape == (48, 3)
    for radius in radii.unique():
        same = values[radii == radius]
        assert torch.equal(same, same[:1].expand_as(same))
    assert torch.equal(values[radii == radii.max()][0], embedding.table[-1])
    assert RadiusEmbedding(3)(Grid(1, 1)).shape == (1, 3)
