"""The mixer against the paper's equations written out, and its options."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from spectral_vmamba.layers import Block, Downsample, IsotropicConv, RadiusEmbedding, S6Mixer
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.spectral import spectral_traversal
from spectral_vmamba.ops.traversal import Traversal
from spectral_vmamba.ops.turns import turn


def made(height=5, width=6, channels=16, batch=2, domain="square"):
    grid = Grid(height, width, domain)
    x = torch.randn(batch, len(grid.cells()), channels, dtype=torch.float64)
    return x, spectral_traversal(x, grid)


def straightforward(mixer, x, orders):
    """One image, one path, one token after the other; Linear layers as they are."""
    u = F.silu(mixer.in_proj(x))
    out = torch.zeros_like(u)
    for b in range(x.shape[0]):
        for path in range(orders.shape[1]):
            h = torch.zeros(u.shape[-1], mixer.s6.state_size, dtype=x.dtype)
            for t in orders[b, path].tolist():
                projected = mixer.s6.x_proj[path] @ u[b, t]
                dt, B, C = projected.split([mixer.s6.rank, mixer.s6.state_size, mixer.s6.state_size])
                Δ = F.softplus(mixer.s6.dt_proj[path] @ dt + mixer.s6.dt_bias[path])
                A = -torch.exp(mixer.s6.A_log[path])
                h = torch.exp(Δ[:, None] * A) * h + Δ[:, None] * B * u[b, t][:, None]
                out[b, t] = out[b, t] + h @ C + mixer.s6.D[path] * u[b, t]
    return mixer.out_proj(mixer.out_norm(out))


@pytest.mark.parametrize("state_size", [1, 3])
@pytest.mark.parametrize("backend", ["auto", "portable", "reference"])
def test_mixer_is_the_papers_equations(backend, state_size):
    mixer = S6Mixer(16, 8, state_size=state_size, backend=backend).double()
    nn.init.normal_(mixer.s6.dt_bias)
    x, traversal = made()
    expected = straightforward(mixer, x, traversal.orders)
    torch.testing.assert_close(mixer(x, traversal), expected)
    loss = torch.randn_like(expected)
    got = torch.autograd.grad((mixer(x, traversal) * loss).sum(), list(mixer.parameters()))
    wanted = torch.autograd.grad((expected * loss).sum(), list(mixer.parameters()))
    for (name, _), a, b in zip(mixer.named_parameters(), got, wanted, strict=True):
        torch.testing.assert_close(a, b, msg=lambda m, name=name: f"{name}: {m}")


def test_concat_keeps_the_paths_apart():
    """With a merge matrix of identities side by side, concat is the sum."""
    torch.manual_seed(1)
    summed = S6Mixer(16, 8).double()
    concat = S6Mixer(16, 8, merge="concat").double()
    concat.load_state_dict({**concat.state_dict(), **summed.state_dict()})
    with torch.no_grad():
        concat.merge.weight.copy_(torch.eye(32).repeat(1, 8))
    x, traversal = made()
    torch.testing.assert_close(concat(x, traversal), summed(x, traversal))
    with torch.no_grad():
        concat.merge.weight[:, 32:] = 0
    only_first = Traversal(traversal.grid, traversal.ranks, traversal.content, traversal.orders[:, :1])
    one = S6Mixer(16, 1).double()
    one.load_state_dict({k: v[:1] if k.startswith("s6.") else v for k, v in summed.state_dict().items()})
    torch.testing.assert_close(concat(x, traversal), one(x, only_first))


@pytest.mark.parametrize("merge", ["sum", "concat"])
def test_shared_directions_cannot_see_the_sign(merge):
    mixer = S6Mixer(16, 8, share_directions=True, merge=merge).double()
    nn.init.normal_(mixer.s6.dt_bias)
    assert len(mixer.s6.A_log) == 4
    x, traversal = made()
    signs = torch.tensor([1, -1, -1, 1])[:, None]
    flipped = Traversal.from_ranks(traversal.grid, traversal.ranks * signs, traversal.content)
    assert not torch.equal(flipped.orders, traversal.orders)
    torch.testing.assert_close(mixer(x, flipped), mixer(x, traversal))
    own = S6Mixer(16, 8).double()
    nn.init.normal_(own.s6.dt_bias)
    assert (own(x, flipped) - own(x, traversal)).abs().max() > 1e-3


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
        torch.testing.assert_close(turned_out, turn(out, quarters))


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


def test_radius_embedding_depends_on_the_radius_alone():
    embedding = RadiusEmbedding(3).double()
    nn.init.normal_(embedding.table)
    grid = Grid(6, 8)
    values, radii = embedding(grid), grid.squared_radii()
    assert values.shape == (48, 3)
    for radius in radii.unique():
        same = values[radii == radius]
        assert torch.equal(same, same[:1].expand_as(same))
    torch.testing.assert_close(values[radii == radii.max()][0], embedding.table[-1])
    assert RadiusEmbedding(3)(Grid(1, 1)).shape == (1, 3)


def test_downsample_pools_features_and_orders_together():
    layer = Downsample(4, 8).double()
    x, traversal = made(7, 7, 4)
    pooled, halved = layer(x, traversal)
    wide = layer.widen(x)
    maps = F.max_pool2d(wide.mT.view(2, 8, 7, 7), 3, 2, 1)
    torch.testing.assert_close(pooled, layer.norm(maps.flatten(2).mT))
    strongest = wide.square().sum(-1)
    windows = traversal.grid.windows()
    padded = torch.cat([strongest, torch.full((2, 1), -torch.inf)], 1)[:, windows]
    winner = windows.expand(2, -1, -1).gather(-1, padded.argmax(-1, keepdim=True))[..., 0]
    expected = traversal.ranks.gather(-1, winner[:, None].expand(2, 4, 16))
    assert torch.equal(halved.ranks, expected)


def test_block_adds_its_two_halves():
    mixer = S6Mixer(16, 8)
    block = Block(16, mixer, 4.0, nn.Identity()).double()
    x, traversal = made()
    middle = x + mixer(block.mixer_norm(x), traversal)
    torch.testing.assert_close(block(x, traversal), middle + block.mlp(block.mlp_norm(middle)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge": "mean"}, "expected merge"),
        ({"local_mixing": "conv"}, "expected local_mixing"),
        ({"backend": "gpu"}, "unknown backend"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        S6Mixer(16, 8, **options)
    with pytest.raises(ValueError, match="pairs"):
        S6Mixer(16, 3, share_directions=True)
