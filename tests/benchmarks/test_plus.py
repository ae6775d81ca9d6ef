"""The candidates of `spectral_vmamba_plus`: each can be built and trained, and keeps quarter turns."""

import pytest
import torch

from benchmarks.plus.candidates import CANDIDATES, NOT_INVARIANT_ALONE, build
from spectral_vmamba.testing import activate_scan, rotation_gap

PARAMETERS = 1_300_000  # about those of nano


@pytest.fixture(scope="module")
def images():
    return torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.full
@pytest.mark.parametrize("name", CANDIDATES)
def test_candidates_keep_quarter_turns_without_a_frame(name, images):
    torch.manual_seed(0)
    model = build(name, 10, frame="none").eval()
    assert sum(parameter.numel() for parameter in model.parameters()) < PARAMETERS
    activate_scan(model)
    (gap,) = rotation_gap(model, images, (90.0,))
    if name in NOT_INVARIANT_ALONE:
        assert gap.max_difference > 1e-3
    else:
        assert gap.max_difference < 1e-4


@pytest.mark.full
@pytest.mark.parametrize("name", CANDIDATES)
def test_every_parameter_of_a_candidate_learns(name, images):
    torch.manual_seed(0)
    model = build(name, 10).train()
    model(images).logsumexp(1).sum().backward()
    assert [each for each, parameter in model.named_parameters() if parameter.grad is None] == []
