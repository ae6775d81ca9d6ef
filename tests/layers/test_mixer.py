"""The mixer against the equations of the paper, and its options."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from spectral_vmamba.layers import S6Mixer
from spectral_vmamba.ops.traversal import Traversal
from tests.support.tolerances import assert_relatively_close
from tests.support.traversals import random_tokens


def plain_mixer(mixer, x, orders):
    """One image, one path, one token after the other."""
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
def test_the_mixer_equals_the_equations_of_the_paper(backend, state_size):
    mixer = S6Mixer(16, 8, state_size=state_size, backend=backend).double()
    nn.init.normal_(mixer.s6.dt_bias)
    x, traversal = random_tokens()
    expected = plain_mixer(mixer, x, traversal.orders)
    assert_relatively_close(mixer(x, traversal), expected, 3e-15)  # measured: 3.7e-16
    loss = torch.randn_like(expected)
    actual = torch.autograd.grad((mixer(x, traversal) * loss).sum(), list(mixer.parameters()))
    exact = torch.autograd.grad((expected * loss).sum(), list(mixer.parameters()))
    for (name, _), a, b in zip(mixer.named_parameters(), actual, exact, strict=True):
        assert_relatively_close(a, b, 1e-14, name)  # measured: 1.4e-15


def test_concat_with_a_merge_of_identities_is_the_sum():
    torch.manual_seed(1)
    summed = S6Mixer(16, 8).double()
    concat = S6Mixer(16, 8, merge="concat").double()
    concat.load_state_dict({**concat.state_dict(), **summed.state_dict()})
    with torch.no_grad():
        concat.merge.weight.copy_(torch.eye(32).repeat(1, 8))
    x, traversal = random_tokens()
    assert_relatively_close(concat(x, traversal), summed(x, traversal), 3e-15)  # measured: 3.6e-16
    with torch.no_grad():
        concat.merge.weight[:, 32:] = 0
    only_first = Traversal(traversal.grid, traversal.ranks, traversal.content, traversal.orders[:, :1])
    one = S6Mixer(16, 1).double()
    one.load_state_dict({k: v[:1] if k.startswith("s6.") else v for k, v in summed.state_dict().items()})
    assert_relatively_close(concat(x, traversal), one(x, only_first), 6e-16)  # measured: 5.9e-17


@pytest.mark.parametrize("merge", ["sum", "concat"])
def test_shared_directions_do_not_depend_on_the_sign(merge):
    mixer = S6Mixer(16, 8, share_directions=True, merge=merge).double()
    nn.init.normal_(mixer.s6.dt_bias)
    assert len(mixer.s6.A_log) == 4
    x, traversal = random_tokens()
    signs = torch.tensor([1, -1, -1, 1])[:, None]
    flipped = Traversal.from_ranks(traversal.grid, traversal.ranks * signs, traversal.content)
    assert not torch.equal(flipped.orders, traversal.orders)
    assert_relatively_close(mixer(x, flipped), mixer(x, traversal), 3e-15)  # measured: 3.8e-16
    separate = S6Mixer(16, 8).double()
    nn.init.normal_(separate.s6.dt_bias)
    assert (separate(x, flipped) - separate(x, traversal)).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge": "mean"}, "expected merge"),
        ({"local_mixing": "conv"}, "expected local_mixing"),
        ({"backend": "gpu"}, "unknown backend"),
    ],
)
def test_invalid_options(options, message):
    with pytest.raises(ValueError, match=message):
        S6Mixer(16, 8, **options)
    with pytest.raises(ValueError, match="pairs"):
        S6Mixer(16, 3, share_directions=True)
