"""Weights, their moving average and the optimizer."""

import pytest
import torch
from timm.utils.model_ema import ModelEmaV3
from torch import nn

from spectral_vmamba.training import TrainConfig
from spectral_vmamba.training.learner import TrainableEma


@pytest.mark.parametrize("frozen", [False, True])
def test_the_moving_average_equals_that_of_timm(frozen):
    """The same bits, buffers included; frozen tensors do not change."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2))
    model[0].requires_grad_(not frozen)
    config = TrainConfig(data="", output="", ema=0.9, ema_warmup=True)
    ours, timms = TrainableEma(model, config), ModelEmaV3(model, decay=0.9, use_warmup=True)
    optimizer = torch.optim.SGD([part for part in model.parameters() if part.requires_grad], lr=0.1)
    for step in range(1, 6):
        model(torch.randn(8, 3, 4, 4)).square().sum().backward()
        optimizer.step()
        for average in (ours, timms):
            average.update(model, step=step)
    expected = timms.module.state_dict()
    assert all(tensor.equal(expected[name]) for name, tensor in ours.module.state_dict().items())
    assert not expected["3.weight"].equal(model[3].weight)
