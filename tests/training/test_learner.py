"""Weights, their moving average and the optimizer."""

import pytest
import torch
from timm.utils.model_ema import ModelEmaV3
from torch import nn

from spectral_vmamba.training import OptimizerConfig, TrainConfig
from spectral_vmamba.training.learner import TrainableEma, make_schedule


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


def learning_rates(config, steps_per_epoch, steps):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=config.lr)
    schedule = make_schedule(optimizer, config, 1.0, steps_per_epoch, steps)
    rates = []
    for step in range(steps):
        schedule.step_update(step)
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


def test_the_linear_schedule_warms_up_by_steps_and_falls_in_equal_steps():
    config = OptimizerConfig(lr=1.0, min_lr=0.0, warmup_lr=0.0, schedule="linear", warmup_steps=4)
    rates = learning_rates(config, 1000, 12)
    assert rates == pytest.approx([0, 0.25, 0.5, 0.75, *(1 - step / 8 for step in range(8))])


def test_the_cosine_schedule_is_half_way_down_in_the_middle():
    config = OptimizerConfig(lr=1.0, min_lr=0.0, warmup_lr=0.0, warmup_epochs=1)
    rates = learning_rates(config, 4, 12)
    assert rates[:4] == pytest.approx([0, 0.25, 0.5, 0.75])
    assert (rates[4], rates[8]) == (1.0, pytest.approx(0.5))
