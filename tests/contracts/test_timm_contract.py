"""What timm, and the libraries that stand on it, expect of a model; over every registered name."""

import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file
from timm.optim import param_groups_layer_decay, param_groups_weight_decay

from spectral_vmamba.models import timm
from spectral_vmamba.models.positions import apart
from spectral_vmamba.testing import activate_scan
from tests.support.models import (
    KINDS,
    ONE_OF_EACH,
    build,
    drop_paths,
    images,
    is_isotropic,
    is_spectral,
    layers,
    or_slow,
    shallow,
    shape,
)

every_model = pytest.mark.parametrize("name", or_slow(KINDS))
# Compiling takes seconds a model.
every_family = pytest.mark.parametrize("name", or_slow(ONE_OF_EACH))


@every_model
def test_forward_backward_reaches_every_trainable_parameter(name):
    model = activate_scan(build(name, drop_path_rate=0.0)).train()
    logits = model(images(name))
    assert logits.shape == (2, 7)
    (logits * torch.randn_like(logits)).sum().backward()
    for parameter_name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, parameter_name
            assert parameter.grad.isfinite().all(), parameter_name
            assert parameter.grad.any(), f"{parameter_name} gets a gradient of zeros"
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
    with pytest.raises(RuntimeError):
        build(name, pretrained=True)


@every_model
def test_feature_maps(name):
    depth, x = len(layers(build(name))), images(name)
    model = build(name, features_only=True, out_indices=tuple(range(depth))).eval()
    maps = model(x)
    assert [m.shape[1] for m in maps] == model.feature_info.channels()
    for m, reduction in zip(maps, model.feature_info.reduction(), strict=True):
        assert m.shape[-2:] == (-(-x.shape[-1] // reduction),) * 2
    steps = set(model.feature_info.reduction())
    assert len(steps) == (1 if is_isotropic(name) else depth), "one size throughout, or a halving per stage"
    chosen = build(name, features_only=True, out_indices=(0, 1)).eval()
    assert len(layers(chosen.model)) == 2, "later layers are pruned"
    for a, b in zip(chosen(x), maps, strict=False):
        assert torch.equal(a, b)
    unless_told = build(name, features_only=True).eval()(x)
    assert len(unless_told) == (3 if is_isotropic(name) else depth), "as timm does for ViT and for hierarchies"
    assert torch.equal(unless_told[-1], maps[-1])


def tokens_of(maps: torch.Tensor) -> torch.Tensor:
    """Without the cells outside the disk, which have no token and are zero."""
    flat = maps.flatten(2).mT
    return flat[:, flat.flatten(2).any(-1).any(0)]


@every_model
def test_forward_intermediates(name):
    model = build(name).eval()
    x = images(name)
    class_token = getattr(model, "cls_token", None) is not None
    final, maps = model.forward_intermediates(x, norm=True)
    assert len(maps) == len(layers(model))
    torch.testing.assert_close(final, model.forward_features(x))
    torch.testing.assert_close(tokens_of(maps[-1]), apart(final, class_token)[1])
    early, _ = model.forward_intermediates(x, indices=[0], stop_early=True)
    torch.testing.assert_close(apart(early, class_token)[1], tokens_of(maps[0]))
    (last,) = model.forward_intermediates(x, indices=[-1], norm=True, intermediates_only=True)
    torch.testing.assert_close(last, maps[-1])
    (only,) = model.forward_intermediates(x, indices=[1], norm=True, stop_early=True, intermediates_only=True)
    torch.testing.assert_close(only, maps[1])
    with pytest.raises(ValueError, match="NCHW"):
        model.forward_intermediates(x, output_fmt="NHWC")
    if not is_isotropic(name):
        with pytest.raises(ValueError, match="NCHW"):
            model.forward_intermediates(x, output_fmt="NLC")
        return
    patches = model.forward_intermediates(x, norm=True, output_fmt="NLC", intermediates_only=True)
    for m, tokens in zip(maps, patches, strict=True):
        assert torch.equal(m.flatten(2).mT, tokens)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_pruning_layers_leaves_a_norm_that_fits(name):
    model = build(name).eval()
    whole = model.forward_intermediates(images(name), indices=[0], norm=True, intermediates_only=True)
    model.prune_intermediate_layers([0], prune_norm=False)
    final, maps = model.forward_intermediates(images(name), indices=[0], norm=True)
    if is_isotropic(name):
        assert torch.equal(maps[0], whole[0]), "every block's width is the norm's"
    else:
        assert isinstance(model.norm, torch.nn.Identity), "it was the last stage's"
        assert torch.equal(maps[0], whole[0])
    assert model.forward_features(images(name)).shape == final.shape


@every_model
def test_features_then_head_is_forward(name):
    model = build(name).eval()
    x = images(name)
    features = model.forward_features(x)
    torch.testing.assert_close(model.forward_head(features), model(x), rtol=1e-4, atol=1e-5)
    pooled = model.forward_head(features, pre_logits=True)
    assert pooled.shape == (2, model.num_features) == (2, model.head_hidden_size)


@every_model
def test_classifier_can_be_replaced(name):
    model = build(name).eval()
    assert model.get_classifier().out_features == 7
    model.reset_classifier(3)
    assert model(images(name)).shape == (2, 3)
    model.reset_classifier(0)
    assert model(images(name)).shape == (2, model.num_features)
    model.reset_classifier(0, "")
    torch.testing.assert_close(model(images(name)), model.forward_features(images(name)))
    model.reset_classifier(4, "max")
    assert model(images(name)).shape == (2, 4)
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
    assert torch.equal(other(images(name)), model(images(name)))


@every_model
def test_pickled_and_read_again(name):
    model = build(name).eval()
    again = pickle.loads(pickle.dumps(model))
    assert torch.equal(again(images(name)), model(images(name)))
    again.load_state_dict(model.state_dict())


@every_model
def test_loads_by_checkpoint_path(name, tmp_path):
    model = build(name).eval()
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    torch.manual_seed(5)
    options = shape(name)
    path = str(tmp_path / "weights.safetensors")
    loaded = timm.create_model(name, num_classes=7, checkpoint_path=path, **options).eval()
    assert torch.equal(loaded(images(name)), model(images(name)))


@every_model
def test_checkpointing_gives_equal_gradients(name):
    """Under drop path too: the recomputation draws the same paths."""
    gradients = []
    for enabled in (False, True):
        model = activate_scan(build(name, drop_path_rate=0.3)).train()
        model.set_grad_checkpointing(enabled)
        torch.manual_seed(3)
        loss = model(images(name)).square().sum()
        loss.backward()
        gradients.append([p.grad for p in model.parameters() if p.requires_grad])
    for plain, checkpointed in zip(*gradients, strict=True):
        assert torch.equal(plain, checkpointed)


@every_family
def test_compiles_whole(name):
    model = build(name, **shallow(name)).eval()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(images(name)), model(images(name)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", or_slow(["spectral_vmamba_nano"]))
def test_compiles_whole_in_training(name):
    model = activate_scan(build(name, **shallow(name))).train()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    compiled(images(name)).square().sum().backward()
    got = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(images(name)).square().sum().backward()
    for a, p in zip(got, model.parameters(), strict=True):
        torch.testing.assert_close(a, p.grad, rtol=1e-3, atol=1e-4 * float(p.grad.abs().max()))


@every_family
def test_exports_with_a_dynamic_batch(name):
    model = build(name, **shallow(name)).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (images(name, 2),), dynamic_shapes=({0: batch},))
    for size in (1, 5):
        x = images(name, size)
        torch.testing.assert_close(program.module()(x), model(x), rtol=1e-4, atol=1e-5)


@every_model
def test_optimizer_groups(name):
    model = build(name, **({"radius_embedding": True} if is_spectral(name) else {}))
    undecayed = model.no_weight_decay()
    kept = ("A_log", ".D", "dt_bias", "pos_embed", "cls_token", "radius.table")
    assert undecayed == {n for n, _ in model.named_parameters() if n.endswith(kept)}
    decayed = param_groups_weight_decay(model, 0.05, no_weight_decay_list=model.no_weight_decay())[1]["params"]
    scan = [p for n, p in model.named_parameters() if n.endswith(("A_log", ".D", "dt_bias"))]
    assert not {id(p) for p in scan} & {id(p) for p in decayed}
    groups = param_groups_layer_decay(model, 0.05, no_weight_decay_list=model.no_weight_decay(), layer_decay=0.5)
    scales = {group["lr_scale"] for group in groups}
    assert max(scales) == 1.0
    assert len(scales) > len(layers(model))


def test_configuration_asks_for_the_pixels_its_stem_was_made_for():
    lite = build("spectral_vmamba_tiny", stem="timm:tf_efficientnet_lite0")
    assert lite.pretrained_cfg["mean"] == (0.5, 0.5, 0.5)
    assert build("spectral_vmamba_tiny").pretrained_cfg["mean"] == (0.485, 0.456, 0.406)


@every_model
@pytest.mark.parametrize("in_chans", [1, 4])
def test_other_channel_counts(name, in_chans):
    model = build(name, in_chans=in_chans).eval()
    x = images(name)[:, :1].expand(-1, in_chans, -1, -1)
    assert model(x).shape == (2, 7)


@every_model
def test_empty_batch(name):
    model = build(name).eval()
    assert model(images(name)[:0]).shape == (0, 7)


@every_model
def test_a_row_of_a_batch_is_a_batch_of_one(name):
    model = activate_scan(build(name)).double().eval()
    x = images(name, 3).double()
    with torch.no_grad():
        torch.testing.assert_close(model(x)[1:2], model(x[1:2]), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_drop_path_rises_through_the_network(name):
    rates = drop_paths(build(name, drop_path_rate=0.5))
    assert len(rates) > 2
    torch.testing.assert_close(torch.tensor(rates), torch.linspace(0, 0.5, len(rates)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_autocast(name, dtype):
    model = build(name).train()
    x = images(name)
    with torch.autocast("cpu", dtype):
        logits = model(x)
    logits.float().square().sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    full = model(x)
    assert (logits.float() - full).abs().max() < 0.1 * full.std()
