"""The log-depth linear scan."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.ops.selective_scan.portable import linear_scan


@settings(deadline=None, max_examples=40)
@given(length=st.integers(1, 40), seed=st.integers(0, 2**16), states=st.integers(1, 3))
def test_linear_scan_equals_the_recurrence(length, seed, states):
    generator = torch.Generator().manual_seed(seed)
    decay = torch.rand(2, length, 3, states, generator=generator, dtype=torch.float64)
    drive = torch.randn(2, length, 3, states, generator=generator, dtype=torch.float64)
    h, expected = torch.zeros_like(drive[:, 0]), []
    for t in range(length):
        h = decay[:, t] * h + drive[:, t]
        expected.append(h)
    # measured over 300 seeds: 1.8e-15
    torch.testing.assert_close(linear_scan(decay, drive), torch.stack(expected, 1), rtol=0, atol=1.5e-14)
