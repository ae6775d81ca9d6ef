"""Effective receptive fields of networks whose receptive field is known."""

import pytest
import torch
from torch import nn

from spectral_vmamba.metrics.receptive_field import area_with, measure_receptive_field
from spectral_vmamba.models import create_model


class Convolution(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Conv2d(3, 4, size, padding=size // 2)

    def forward_features(self, images):
        return self.layer(images)


@pytest.mark.parametrize(("side", "pixels"), [(15, 9), (16, 16)])
def test_the_field_of_a_convolution_is_its_kernel_around_the_middle(side, pixels):
    field = measure_receptive_field(Convolution(3), torch.randn(2, 3, side, side))
    seen = torch.from_numpy(field.contributions) > 0
    rows = seen.any(1).nonzero().flatten()
    assert seen.sum() == pixels
    assert rows.min() + rows.max() == side - 1
    assert field.contributions.max() == 1
    assert field.areas[-1] <= pixels / side**2


def test_areas_of_equal_contributions_are_the_shares():
    assert [area_with(torch.ones(10, 10), share) for share in (0.2, 0.5, 0.99, 1.0)] == [0.2, 0.5, 0.99, 1.0]


@pytest.mark.parametrize("name", ["spectral_vmamba_nano", "vmamba_nano"])
def test_the_mode_and_the_gradients_of_a_network_are_left_alone(name):
    model = create_model(name).train()
    field = measure_receptive_field(model, torch.randn(2, 3, 32, 32))
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert 0 < field.areas[0] < field.areas[1] < field.areas[2] <= 1
