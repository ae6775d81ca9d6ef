"""What timm, and the libraries that build on it, expect of a model; for every registered name."""

import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from spectral_vmamba.models import timm
from spectral_vmamba.models.positions import split_class_token
from spectral_vmamba.models.shipped_weights import weights_of
from spectral_vmamba.testing import activate_scan
from tests.support.models import (
    KINDS,
    ONE_PER_FAMILY,
    build,
    drop_path_rates,
    example_images,
    feature_layers,
    full_except,
    is_isotropic,
    small_options,
)
from tests.support.tolerances import assert_relatively_close

every_model = pytest.mark.parametrize("name", full_except(KINDS))


@every_model
def test_forward_backward_reaches_every_trainable_parameter(name):
    model = activate_scan(build(name, drop_path_rate=0.0)).train()
    logits = model(example_images(name))
    assert logits.shape == (2, 7)
    (logits * torch.randn_like(logits)).sum().backward()
    for parameter_name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, parameter_name
            assert parameter.grad.isfinite().all(), parameter_name
            assert parameter.grad.any(), f"{parameter_name} has a gradient of zeros"
        else:
            assert parameter.grad is None, parameter_name


@every_model
def test_registered_with_a_configuration(name):
    assert timm.is_model(name)
    model = build(name)
    config = model.pretrained_cfg
    assert config["architecture"] == name
    assert config["classifier"] == "head"
    assert config["input_size"][0] == 3
    if not weights_of(name):
        with pytest.raises(RuntimeError, match="No pretrained weights exist"):
            build(name, pretrained=True)


@every_model
def test_feature_maps(name):
    """Of the layers; `test_pyramid.py` has the maps before and after them."""
    depth, x = len(feature_layers(build(name))), example_images(name)
    only = {"features_only": True, **({} if is_isotropic(name) else {"pyramid": False})}
    model = build(name, **only, out_indices=tuple(range(depth))).eval()
    maps = model(x)
    assert [m.shape[1] for m in maps] == model.feature_info.channels()
    for m, reduction in zip(maps, model.feature_info.reduction(), strict=True):
        assert m.shape[-2:] == (-(-x.shape[-1] // reduction),) * 2
    steps = set(model.feature_info.reduction())
    assert len(steps) == (1 if is_isotropic(name) else depth), "one size throughout, or a halving per stage"
    chosen = build(name, **only, out_indices=(0, 1)).eval()
    assert len(feature_layers(chosen.model)) == 2, "later layers are pruned"
    for a, b in zip(chosen(x), maps, strict=False):
        assert torch.equal(a, b)
    default = build(name, **only).eval()(x)
    assert len(default) == (3 if is_isotropic(name) else depth), "timm's number for ViT, and for hierarchies"
    assert torch.equal(default[-1], maps[-1])


def read_tokens(maps: torch.Tensor) -> torch.Tensor:
    """Return the tokens of feature maps, without the cells outside the disk, which are zero."""
    flat = maps.flatten(2).mT
    return flat[:, flat.flatten(2).any(-1).any(0)]


@every_model
def test_forward_intermediates(name):
    model = build(name).eval()
    x = example_images(name)
    class_token = getattr(model, "cls_token", None) is not None

    def patches(features):
        return split_class_token(features, class_token)[1] if is_isotropic(name) else read_tokens(features)

    final, maps = model.forward_intermediates(x, norm=True)
    assert len(maps) == len(feature_layers(model))
    assert torch.equal(final, model.forward_features(x))
    assert torch.equal(read_tokens(maps[-1]), patches(final))
    early, _ = model.forward_intermediates(x, indices=[0], stop_early=True)
    assert torch.equal(patches(early), read_tokens(maps[0]))
    (last,) = model.forward_intermediates(x, indices=[-1], norm=True, intermediates_only=True)
    assert torch.equal(last, maps[-1])
    (only,) = model.forward_intermediates(x, indices=[1], norm=True, stop_early=True, intermediates_only=True)
    assert torch.equal(only, maps[1])
    sequences = model.forward_intermediates(x, norm=True, output_fmt="NLC", intermediates_only=True)
    for m, tokens in zip(maps, sequences, strict=True):
        assert torch.equal(read_tokens(m), tokens)
    if is_isotropic(name):
        with pytest.raises(ValueError, match="NCHW"):
            model.forward_intermediates(x, output_fmt="NHWC")
        return
    final, channels_last = model.forward_intermediates(x, norm=True, output_fmt="NHWC")
    assert torch.equal(final, model.forward_features(x)), "the format is of the intermediates"
    for m, other in zip(maps, channels_last, strict=True):
        assert torch.equal(m, other.movedim(-1, 1))
    with pytest.raises(ValueError, match="NCHW, NHWC, NLC"):
        model.forward_intermediates(x, output_fmt="NHCW")


@pytest.mark.parametrize("name", ONE_PER_FAMILY)
def test_pruning_layers_leaves_a_norm_that_fits(name):
    model = build(name).eval()
    whole = model.forward_intermediates(example_images(name), indices=[0], norm=True, intermediates_only=True)
    model.prune_intermediate_layers([0], prune_norm=False)
    final, maps = model.forward_intermediates(example_images(name), indices=[0], norm=True)
    if is_isotropic(name):
        assert isinstance(model.norm, nn.RMSNorm), "it fits every block"
    else:
        assert isinstance(model.norm, nn.Identity), "it belonged to the last stage"
    assert torch.equal(maps[0], whole[0])
    assert model.forward_features(example_images(name)).shape == final.shape


@every_model
def test_features_then_head_is_forward(name):
    model = build(name).eval()
    x = example_images(name)
    features = model.forward_features(x)
    logits = model(x)
    # Measured: at most 1.8e-7. With a canonical frame, the order of summation differs.
    assert_relatively_close(model.forward_head(features), logits, 1.5e-6)
    pooled = model.forward_head(features, pre_logits=True)
    assert pooled.shape == (2, model.num_features) == (2, model.head_hidden_size)


@pytest.mark.parametrize("pool", ["avg", "max"])
@pytest.mark.parametrize("size", [(32, 32), (25, 41)], ids=str)
def test_maps_of_a_disk_are_pooled_over_its_tokens(pool, size):
    model = build("spectral_vmamba_nano", domain="disk", widths=(16,), depths=(1,), global_pool=pool).eval()
    model.norm.bias.data.fill_(-3.0)  # so that zeros would win every maximum
    x = torch.randn(3, 3, *size)
    maps = model.forward_features(x)
    tokens = model.forward_tokens(x).x.shape[1]
    occupied = maps.abs().amax(1) > 0
    assert (occupied.flatten(1).sum(1) == tokens).all()
    assert tokens < maps[0, 0].numel(), "some cells are outside"
    # Measured: 4e-7. The canonical frame sums in another order.
    assert_relatively_close(model.forward_head(maps), model(x), 4e-6)
    model.reset_classifier(5, "")
    dense = model(x)
    assert dense.shape == (3, 5, *maps.shape[-2:])
    assert torch.equal(dense.abs().amax(1) > 0, occupied)
    assert torch.equal(model.forward_head(maps), dense)


def test_head_names_the_shape_that_it_expects():
    with pytest.raises(ValueError, match=r"expected feature maps \(b, c, h, w\).*got \(2, 4, 192\)"):
        build("spectral_vmamba_nano").forward_head(torch.zeros(2, 4, 192))


@every_model
def test_classifier_can_be_replaced(name):
    model = build(name).eval()
    assert model.get_classifier().out_features == 7
    model.reset_classifier(3)
    assert model(example_images(name)).shape == (2, 3)
    model.reset_classifier(0)
    assert model(example_images(name)).shape == (2, model.num_features)
    model.reset_classifier(0, "")
    assert torch.equal(model(example_images(name)), model.forward_features(example_images(name)))
    model.reset_classifier(4, "max")
    assert model(example_images(name)).shape == (2, 4)
    with pytest.raises(ValueError, match="global_pool"):
        model.reset_classifier(4, "median")
    with pytest.raises(ValueError, match="num_classes ≥ 1, or 0"):
        model.reset_classifier(-1)


@every_model
def test_state_dict_round_trip(name, tmp_path):
    model, other = build(name).eval(), build(name, num_classes=7).eval()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1)
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    assert torch.equal(other(example_images(name)), model(example_images(name)))


@every_model
def test_pickles(name):
    model = build(name).eval()
    again = pickle.loads(pickle.dumps(model))
    assert torch.equal(again(example_images(name)), model(example_images(name)))
    again.load_state_dict(model.state_dict())


@every_model
def test_loads_by_checkpoint_path(name, tmp_path):
    model = build(name).eval()
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    torch.manual_seed(5)
    path = str(tmp_path / "weights.safetensors")
    loaded = timm.create_model(name, num_classes=7, checkpoint_path=path, **small_options(name)).eval()
    assert torch.equal(loaded(example_images(name)), model(example_images(name)))


@every_model
def test_checkpointing_gives_equal_gradients(name):
    """Also with drop path: the recomputation drops the same paths."""
    gradients = []
    for enabled in (False, True):
        model = activate_scan(build(name, drop_path_rate=0.3)).train()
        model.set_grad_checkpointing(enabled)
        torch.manual_seed(3)
        loss = model(example_images(name)).square().sum()
        loss.backward()
        gradients.append([p.grad for p in model.parameters() if p.requires_grad])
    for plain, checkpointed in zip(*gradients, strict=True):
        assert torch.equal(plain, checkpointed)


def test_configuration_has_the_normalization_of_its_stem():
    lite = build("spectral_vmamba_tiny", stem="timm:tf_efficientnet_lite0")
    assert lite.pretrained_cfg["mean"] == (0.5, 0.5, 0.5)
    assert build("spectral_vmamba_tiny").pretrained_cfg["mean"] == (0.485, 0.456, 0.406)


@every_model
@pytest.mark.parametrize("in_chans", [1, 4])
def test_other_channel_counts(name, in_chans):
    model = build(name, in_chans=in_chans).eval()
    x = example_images(name)[:, :1].expand(-1, in_chans, -1, -1)
    assert model(x).shape == (2, 7)


@every_model
def test_empty_batch(name):
    model = build(name).eval()
    assert model(example_images(name)[:0]).shape == (0, 7)


@every_model
def test_row_of_a_batch_equals_a_batch_of_one(name):
    mixes = {"distance_scale": "image"} if name.endswith("_published") else {}  # the authors' scale is the batch's
    model = activate_scan(build(name, **mixes)).double().eval()
    x = example_images(name, 3).double()
    with torch.no_grad():
        assert_relatively_close(model(x)[1:2], model(x[1:2]), 1e-14)  # measured: 1.6e-15


@pytest.mark.parametrize("name", ONE_PER_FAMILY)
def test_drop_path_rises_through_the_network(name):
    rates = drop_path_rates(build(name, drop_path_rate=0.5))
    assert len(rates) > 2
    torch.testing.assert_close(torch.tensor(rates), torch.linspace(0, 0.5, len(rates)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ONE_PER_FAMILY)
def test_autocast(name, dtype):
    model = build(name).train()
    x = example_images(name)
    with torch.autocast("cpu", dtype):
        logits = model(x)
    logits.float().square().sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    full = model(x)
    # Measured: 0.017 in bfloat16, 0.0025 in float16.
    assert (logits.float() - full).abs().max() < (0.1 if dtype == torch.bfloat16 else 0.02) * full.std()
