"""The selective scan as its equations: one token after the other. And comparisons with gradients."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.tolerances import assert_relatively_close


def plain_scan(s6, tokens, parameter_set: int = 0) -> list[Tensor]:
    """Return the outputs of one parameter set of an S6 layer for a list of tokens (channels,), in the given order."""
    i = parameter_set
    h, outputs = torch.zeros(tokens[0].numel(), s6.state_size).to(tokens[0]), []
    for u in tokens:
        dt, B, C = (s6.x_proj[i] @ u).split([s6.rank, s6.state_size, s6.state_size])
        Δ = F.softplus(s6.dt_proj[i] @ dt + s6.dt_bias[i])[:, None]
        h = torch.exp(-Δ * s6.A_log[i].exp()) * h + Δ * B * u[:, None]
        outputs.append(h @ C + s6.D[i] * u)
    return outputs


def assert_equal_with_gradients(
    actual: Tensor, expected: Tensor, inputs: dict[str, Tensor], all_used: bool = True
) -> None:
    """Compare two results in float64, and the gradients of all inputs through them.

    Measured over the four families, relative to the largest value: at most 3e-15, and 3e-14 for gradients.
    """
    assert_relatively_close(actual, expected, 2e-14, "output")
    weight = torch.randn_like(actual)
    gradients = [torch.autograd.grad((y * weight).sum(), list(inputs.values())) for y in (actual, expected)]
    for name, a, b in zip(inputs, *gradients, strict=True):
        assert b.any() or not all_used, f"{name} has no gradient"
        if b.any():
            assert_relatively_close(a, b, 2e-13, f"gradient of {name}")
        else:
            assert not a.any(), f"{name} has a gradient"
