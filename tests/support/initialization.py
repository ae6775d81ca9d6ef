"""Check the initial weights of scans in both directions, neither too small nor too large, over many scans at once."""

from math import log

import torch
import torch.nn.functional as F

Δ_RANGE = (1e-3, 1e-1)


def assert_std(values: torch.Tensor, expected: float) -> None:
    """Check the standard deviation within 15 %, and that the mean is near zero."""
    values = values.detach()
    assert 0.85 * expected < float(values.std()) < 1.15 * expected, f"{float(values.std()):.4f}, not {expected:.4f}"
    assert abs(float(values.mean())) < 0.15 * expected


def assert_initial_scans(scans, projections: float | None = None, Δ_spread: bool = True) -> None:
    """Expect Mamba's initialization. `projections` is another standard deviation of the projections; without `Δ_spread`
    the bias of Δ is zero."""
    names = ("x_proj", "dt_proj", "dt_bias")
    x_proj, dt_proj, dt_bias = (torch.cat([getattr(s6, name).detach().flatten() for s6 in scans]) for name in names)
    channels, rank = scans[0].x_proj.shape[-1], scans[0].rank
    assert_std(x_proj, projections or (3 * channels) ** -0.5)
    assert_std(dt_proj, projections or (3 * rank) ** -0.5)
    if Δ_spread:
        logs = F.softplus(dt_bias).log()
        lowest, highest = (log(end) for end in Δ_RANGE)
        assert lowest - 1e-3 < logs.min() < lowest + 0.5
        assert highest - 0.5 < logs.max() < highest + 1e-3
        assert abs(float(logs.mean()) - (lowest + highest) / 2) < 0.3
        assert abs(float(logs.std()) - (highest - lowest) / 12**0.5) < 0.2
    else:
        assert not dt_bias.any()
    for s6 in scans:
        torch.testing.assert_close(s6.A_log.exp(), torch.arange(1.0, s6.state_size + 1).expand_as(s6.A_log))
        assert (s6.D == 1).all()
