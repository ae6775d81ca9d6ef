"""The parameter groups that timm's optimizers make of every registered model."""

import pytest
from timm.optim import param_groups_layer_decay, param_groups_weight_decay
from torch import nn

from spectral_vmamba.layers import S6, IsotropicConv
from spectral_vmamba.models import is_spectral
from tests.support.models import KINDS, build, feature_layers, full_except, shallow_options

every_model = pytest.mark.parametrize("name", full_except(KINDS))


@every_model
def test_weight_decay_applies_to_weights_of_layers_only(name):
    """Not to biases, norms, positions, class tokens, nor to A, D and the bias of Δ of a scan."""
    model = build(name, **({"radius_embedding": True} if is_spectral(name) else {}))
    layers = [m for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv1d, nn.Conv2d, IsotropicConv))]
    weights = [m.weight for m in layers] + [
        w for m in model.modules() if isinstance(m, S6) for w in (m.x_proj, m.dt_proj)
    ]
    rest, decayed = param_groups_weight_decay(model, 0.05, no_weight_decay_list=model.no_weight_decay())
    assert (rest["weight_decay"], decayed["weight_decay"]) == (0.0, 0.05)
    assert {id(p) for p in decayed["params"]} == {id(w) for w in weights if w.requires_grad}
    assert len(rest["params"]) + len(decayed["params"]) == sum(p.requires_grad for p in model.parameters())


SCAN = ("A_log", "D", "dt_bias")
NO_DECAY = {
    "spectral_vmamba_nano": {"radius.table", *(f"stages.{i}.blocks.0.mixer.s6.{p}" for i in (0, 1) for p in SCAN)},
    "vmamba_nano": {f"stages.{i}.blocks.0.mixer.s6.{p}" for i in (0, 1) for p in SCAN},
    "vim_nano": {
        "pos_embed",
        "cls_token",
        *(f"blocks.0.mixer.directions.{i}.s6.{p}" for i in (0, 1) for p in SCAN),
    },
    "local_vim_nano": {"pos_embed", *(f"blocks.0.mixer.directions.{i}.s6.{p}" for i in range(4) for p in SCAN)},
    "msvmamba_pico": {
        f"stages.{i}.blocks.0.mixer.{scan}_scan.{p}" for i in (0, 1) for scan in ("fine", "coarse") for p in SCAN
    },
}


@pytest.mark.parametrize("name", NO_DECAY)
def test_names_without_weight_decay(name):
    options = {"radius_embedding": True} if is_spectral(name) else {}
    assert build(name, **shallow_options(name), **options).no_weight_decay() == NO_DECAY[name]


@every_model
def test_layer_decay_reaches_every_layer(name):
    model = build(name)
    groups = param_groups_layer_decay(model, 0.05, no_weight_decay_list=model.no_weight_decay(), layer_decay=0.5)
    scales = {group["lr_scale"] for group in groups}
    assert max(scales) == 1.0
    assert len(scales) > len(feature_layers(model))
