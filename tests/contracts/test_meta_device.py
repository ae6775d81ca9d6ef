"""Every registered network can be built without values, and then be given those of a checkpoint."""

import pytest
import torch

from spectral_vmamba.models import list_models, timm
from spectral_vmamba.testing import activate_scan
from tests.support.models import build, build_on_meta, example_images, is_isotropic, shallow_options

every_name = pytest.mark.parametrize("name", list_models())


def fill_with_garbage(model):
    """Uninitialized memory often is zero, which can go unnoticed."""
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(float("nan") if tensor.is_floating_point() else -1)


@every_name
def test_a_checkpoint_restores_every_bit(name):
    """As transformers, accelerate and FSDP load: meta device, `to_empty`, `load_state_dict`."""
    model = activate_scan(build(name, **shallow_options(name))).eval()
    with torch.device("meta"):
        other = build(name, **shallow_options(name)).eval()
    other.to_empty(device="cpu")
    fill_with_garbage(other)
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert torch.equal(other(example_images(name)), model(example_images(name)))
    assert not [key for key, _ in model.named_buffers() if key not in model.state_dict()]


@every_name
def test_shapes_are_those_of_the_configuration(name):
    """What timm's own tests check of a model's default configuration, in its registered size."""
    model = build_on_meta(name, num_classes=10).eval()
    cfg, keys = model.default_cfg, model.state_dict().keys()
    assert {f"{cfg['classifier']}.weight", f"{cfg['first_conv']}.weight"} <= keys
    registered = timm.get_pretrained_cfg(name)
    for entry in ("pool_size", "first_conv", "classifier", "mean", "std"):
        assert getattr(registered, entry) == cfg[entry]
    x = torch.empty(2, *cfg["input_size"], device="meta")
    with torch.no_grad():
        features, maps = model.forward_intermediates(x)
        pooled = model.forward_head(features, pre_logits=True)
        model.reset_classifier(0)
        assert model.forward_head(features).shape == pooled.shape == (2, model.num_features)
        model.reset_classifier(0, "")
        unpooled = model.forward_head(features).shape
    assert unpooled == features.shape
    if is_isotropic(name):
        assert cfg["pool_size"] is None, "as in timm's ViT"
        assert features.shape[::2] == (2, model.num_features)
    else:
        assert features.shape == (2, model.num_features, *cfg["pool_size"])
    assert [m.shape[1] for m in maps] == [info["num_chs"] for info in model.feature_info]
    sides = [-(-cfg["input_size"][-1] // info["reduction"]) for info in model.feature_info]
    assert [m.shape[-2:] for m in maps] == [(side, side) for side in sides]


@pytest.mark.parametrize("options", [{"patch_size": 8}, {"widths": (16, 32), "depths": (1, 1)}], ids=str)
def test_pool_size_follows_the_options(options):
    model = build("spectral_vmamba_nano", **options).eval()
    assert model.forward_features(torch.zeros(1, 3, 32, 32)).shape[-2:] == model.pretrained_cfg["pool_size"]


@pytest.mark.parametrize("name", ["spectral_vmamba_lite", "spectral_vmamba_tiny", "spectral_vmamba_nano"])
def test_accelerate_builds_empty_networks(name):
    accelerate = pytest.importorskip("accelerate")
    with accelerate.init_empty_weights():
        empty = build(name, **shallow_options(name)).eval()
    assert all(parameter.is_meta for parameter in empty.parameters())
    model = build(name, **shallow_options(name)).eval()
    empty.to_empty(device="cpu")
    empty.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert torch.equal(empty(example_images(name)), model(example_images(name)))
