"""The isotropic convolution."""

import pytest
import torch

from spectral_vmamba.layers import IsotropicConv
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.turns import turn


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("domain", ["square", "disk"])
def test_isotropic_convolution_turns_with_its_input(kernel, domain):
    conv = IsotropicConv(4, kernel).double()
    assert conv.weight.shape == (4, {3: 3, 5: 7}[kernel])
    grid = Grid(7, 9, domain)
    x = torch.randn(2, len(grid.cells()), 4, dtype=torch.float64)
    out = grid.to_map(conv(x, grid))
    for quarters in (1, 2, 3):
        turned_grid = grid.turn(quarters)
        turned_out = turned_grid.to_map(conv(turned_grid.from_map(turn(grid.to_map(x), quarters)), turned_grid))
        torch.testing.assert_close(turned_out, turn(out, quarters), rtol=0, atol=4e-15)  # measured: 4.4e-16


def test_isotropic_convolution_mixes_neighbors():
    conv = IsotropicConv(1).double()
    x = torch.zeros(1, 25, 1, dtype=torch.float64)
    x[0, 12] = 1
    out = conv(x, Grid(5, 5))[0, :, 0].view(5, 5)
    corner, edge, center = out[1, 1], out[1, 2], out[2, 2]
    assert torch.equal(
        out[1:4, 1:4],
        torch.stack(
            [
                torch.stack([corner, edge, corner]),
                torch.stack([edge, center, edge]),
                torch.stack([corner, edge, corner]),
            ]
        ),
    )
    assert out.count_nonzero() == 9
    with pytest.raises(ValueError, match="odd kernel"):
        IsotropicConv(1, 4)
