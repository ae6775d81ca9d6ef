"""Every family has the initial weights of its published code."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from spectral_vmamba.layers.s6 import S6
from spectral_vmamba.models import timm
from tests.support.initialization import assert_initial_scans, assert_std


def find_scans(blocks) -> list[S6]:
    return [module for module in blocks.modules() if isinstance(module, S6)]


@pytest.mark.parametrize("name", ["vmamba_nano", "msvmamba_pico", "spectral_vmamba_nano"])
@pytest.mark.parametrize("state_size", [1, 4])
def test_scans_of_hierarchies_start_as_in_mamba(name, state_size):
    model = timm.create_model(name, num_classes=10, state_size=state_size, depths=(4, 4, 4))
    for stage in model.stages:
        assert_initial_scans(find_scans(stage))


@pytest.mark.parametrize("name", ["vmamba_nano", "msvmamba_pico", "spectral_vmamba_nano"])
def test_linear_layers_of_hierarchies(name):
    model = timm.create_model(name, num_classes=100)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            assert 0.017 < module.weight.std() < 0.023
            assert module.bias is None or not module.bias.any()


@pytest.mark.parametrize("name", ["vmamba_nano", "msvmamba_pico"])
def test_convolutions_have_torchs_initial_weights(name):
    for module in timm.create_model(name, num_classes=10).modules():
        if isinstance(module, nn.Conv2d):
            bound = module.weight[0].numel() ** -0.5
            assert 0.9 * bound < module.weight.abs().max() <= bound
            assert module.bias is None or module.bias.any()


def test_vim():
    """Only the forward direction has Mamba's small Δ."""
    model = timm.create_model("vim_tiny", depth=16, width=64)
    directions = [block.mixer.directions for block in model.blocks]
    assert_initial_scans([forward.s6 for forward, _ in directions])
    assert_initial_scans([backward.s6 for _, backward in directions], Δ_spread=False)
    for block in model.blocks:
        assert_std(block.mixer.in_proj.weight, (3 * 64) ** -0.5)
        assert_std(block.mixer.out_proj.weight, (3 * 128 * 16) ** -0.5)
    assert not model.patch_embed.bias.any()
    assert_std(model.patch_embed.weight, 768**-0.5)
    for table in (model.pos_embed, model.head.weight):
        assert_std(table, 0.02)
    assert 0.014 < model.cls_token.std() < 0.026


def test_local_vim():
    model = timm.create_model("local_vim_tiny", depth=16, width=64)
    assert_initial_scans(find_scans(model.blocks), projections=0.02, Δ_spread=False)
    for block in model.blocks:
        gate = block.mixer.gate
        for linear in (block.mixer.in_proj, gate.reduce, gate.select):
            assert_std(linear.weight, 0.02)
        assert not gate.reduce.bias.any()
        assert not gate.select.bias.any()
        assert_std(block.mixer.out_proj.weight, (3 * 128 * 16) ** -0.5)


class TestTheTestCanFail:
    @pytest.mark.parametrize("name", ["x_proj", "dt_proj", "dt_bias", "A_log", "D"])
    @pytest.mark.parametrize("factor", [0.7, 1.4])
    def test_other_initial_weights_are_detected(self, name, factor):
        scans = [S6(64, 4, 2, sets=4) for _ in range(4)]
        assert_initial_scans(scans)
        with torch.no_grad():
            for s6 in scans:
                getattr(s6, name).mul_(factor)
        with pytest.raises(AssertionError):
            assert_initial_scans(scans)

    def test_a_narrower_range_of_Δ_is_detected(self):
        scans = [S6(64, 4, 1, sets=8)]
        with torch.no_grad():
            Δ = F.softplus(scans[0].dt_bias).clamp(2e-3, 5e-2)
            scans[0].dt_bias.copy_(Δ.expm1().log())
        with pytest.raises(AssertionError):
            assert_initial_scans(scans)
