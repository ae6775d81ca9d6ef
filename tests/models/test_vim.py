"""Vim against the published facts, and what it shares with LocalVim beside timm's contract (see tests/contracts)."""

import copy
import re

import pytest
import torch
import torch.nn.functional as F
from timm.layers.drop import DropPath

import spectral_vmamba.models.variants.vim  # noqa: F401  (registers the names)
from spectral_vmamba.models import timm
from spectral_vmamba.models.positions import apart, resampled
from spectral_vmamba.models.vim import Vim, VimConfig
from spectral_vmamba.testing import activate_scan

TOTALS = {
    ("vim_tiny", 1000): 7_148_008,
    ("vim_tiny", 100): 6_974_308,
    ("vim_small", 1000): 25_796_584,
    ("vim_small", 100): 25_450_084,
}
BLOCKS = {"vim_tiny": 282_048, "vim_small": 1_043_328}
SMALL = {"width": 16, "depth": 3, "state_size": 3, "patch_size": 4, "img_size": (12, 20)}
both_families = pytest.mark.parametrize("name", ["vim_tiny", "local_vim_tiny"])


def count(module) -> int:
    return sum(p.numel() for p in module.parameters())


def on_meta(name, **options):
    with torch.device("meta"):
        return timm.create_model(name, **options)


def small(name, **options):
    torch.manual_seed(0)
    return activate_scan(timm.create_model(name, **{"num_classes": 5, "drop_path_rate": 0.0, **SMALL, **options}))


def shaken(model):
    """Every parameter moved by its own random numbers: none can be taken for another."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 10)
    return model


def images(batch=2, height=12, width=20, channels=3):
    return torch.randn(batch, channels, height, width, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("name", "classes"), TOTALS)
def test_parameters_are_the_published_ones(name, classes):
    assert count(on_meta(name, num_classes=classes)) == TOTALS[name, classes]


@pytest.mark.parametrize("name", BLOCKS)
def test_parameters_of_the_parts(name):
    model = on_meta(name)
    assert [count(block) for block in model.blocks] == [BLOCKS[name]] * 24
    width = model.config.width
    assert count(model.patch_embed) == 769 * width
    assert model.pos_embed.shape == (1, 197, width)


def test_nano_matches_spectral_nano():
    model = timm.create_model("vim_nano", num_classes=10)
    assert count(model) == 1_057_930
    assert abs(count(model) / count(on_meta("spectral_vmamba_nano", num_classes=10)) - 1) < 0.05
    assert len(model.blocks) == 6
    assert model(images(1, 32, 32)).shape == (1, 10)


def plain_reading(direction, x, z):
    """One direction as its equations stand, token after token; x and z (tokens, channels) in the order it reads."""
    conv, s6 = direction.conv, direction.s6
    h, out = torch.zeros(x.shape[1], s6.state_size).to(x), []
    for t in range(len(x)):
        u = conv.bias
        for back in range(min(t, 3) + 1):
            u = u + conv.weight[:, 0, 3 - back] * x[t - back]
        u = u * torch.sigmoid(u)
        dt, B, C = (s6.x_proj[0] @ u).split([s6.rank, s6.state_size, s6.state_size])
        Δ = F.softplus(s6.dt_proj[0] @ dt + s6.dt_bias[0])[:, None]
        h = torch.exp(-Δ * s6.A_log[0].exp()) * h + Δ * B * u[:, None]
        out.append((h @ C + s6.D[0] * u) * z[t] * torch.sigmoid(z[t]))
    return torch.stack(out)


def plain_norm(norm, x):
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight


def plain_vim_mixer(mixer, x):
    """x (tokens, channels)."""
    x, z = (x @ mixer.in_proj.weight.T).chunk(2, dim=-1)
    forward, backward = mixer.directions
    y = plain_reading(forward, x, z) + plain_reading(backward, x.flip(0), z.flip(0)).flip(0)
    return y / 2 @ mixer.out_proj.weight.T


def assert_same_with_gradients(found, expected, inputs):
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    weight = torch.randn_like(found)
    gradients = [torch.autograd.grad((y * weight).sum(), inputs) for y in (found, expected)]
    for a, b in zip(*gradients, strict=True):
        assert b.any()
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("tokens", [2, 16])
@pytest.mark.parametrize("state_size", [1, 3])
def test_a_block_is_its_equations_with_gradients(tokens, state_size):
    block = small("vim_tiny", state_size=state_size).double().eval().blocks[1]
    torch.nn.init.uniform_(block.norm.weight, 0.5, 1.5)
    x = torch.randn(1, tokens, 16, dtype=torch.float64, requires_grad=True)
    expected = x[0] + plain_vim_mixer(block.mixer, plain_norm(block.norm, x[0]))
    assert_same_with_gradients(block(x, (3, 5))[0], expected, [x, *block.parameters()])


def published_form(model, x, rate, turn=lambda x: x):
    """Blocks, final addition and norm as published: the residual and the mixer's output carried apart, drop path
    shifted by one block."""
    shifted = [0.0, *torch.linspace(0, rate, len(model.blocks)).tolist()]
    hidden, residual = x, None
    for block, drop in zip(model.blocks, shifted, strict=False):
        hidden = turn(hidden)
        residual = hidden if residual is None else turn(residual) + DropPath(drop).train()(hidden)
        hidden = block.mixer(plain_norm(block.norm, residual), (3, 5))
    return plain_norm(model.norm, residual + DropPath(rate).train()(hidden))


def test_is_the_published_carried_residual_with_its_shifted_drop_path():
    model = small("vim_tiny", drop_path_rate=0.5).double().train()
    assert [getattr(block.drop_path, "drop_prob", 0.0) for block in model.blocks] == [0.0, 0.25, 0.5]
    x, _ = model.embed(images(6).double())
    torch.manual_seed(3)
    found = model.forward_features(images(6).double())
    torch.manual_seed(3)
    torch.testing.assert_close(found, published_form(model, x, 0.5))


def test_reversing_the_sequence_is_swapping_the_directions():
    model = small("vim_tiny", img_size=(8, 20)).double().eval()
    with torch.no_grad():
        model.pos_embed.copy_(model.pos_embed + model.pos_embed.flip(1))
    turned = copy.deepcopy(model)
    x = images(2, 8, 20).double()
    with torch.no_grad():
        turned.patch_embed.weight.copy_(model.patch_embed.weight.flip(2, 3))  # patches of the turned image
    assert (turned(x.flip(2, 3)) - model(x)).abs().max() > 1e-3, "the directions are told apart"
    for block in turned.blocks:
        block.mixer.directions = torch.nn.ModuleList(reversed(block.mixer.directions))
    torch.testing.assert_close(turned(x.flip(2, 3)), model(x))


def test_the_class_token_stands_in_the_middle():
    model = small("vim_tiny").eval()
    x, grid = model.embed(images())
    assert grid == (3, 5)
    assert x.shape == (2, 16, 16)
    torch.testing.assert_close(x[:, 7], (model.cls_token + model.pos_embed[:, 7]).expand(2, 1, 16)[:, 0])
    patches = model.patch_embed(images()).flatten(2).mT
    torch.testing.assert_close(x[:, :7], patches[:, :7] + model.pos_embed[:, :7])
    torch.testing.assert_close(x[:, 8:], patches[:, 7:] + model.pos_embed[:, 8:])
    tokens = torch.randn(2, 197, 16)
    assert torch.equal(model.forward_head(tokens, pre_logits=True), tokens[:, 98])
    model.reset_classifier(0, "avg")
    torch.testing.assert_close(model.forward_head(tokens), (tokens.sum(1) - tokens[:, 98]) / 196)


def released(model) -> dict[str, torch.Tensor]:
    """The model's weights as the released checkpoints name and shape them."""
    state = {}
    for name, tensor in model.state_dict().items():
        tensor = tensor[0] if ".s6." in name else tensor
        name = re.sub(r"^blocks\.", "layers.", name).replace("patch_embed.", "patch_embed.proj.")
        name = re.sub(r"^norm\.", "norm_f.", name)
        mark = "_b" if ".directions.1." in name else ""
        name = re.sub(r"directions\.\d\.(s6\.)?", "", name)
        name = name.replace("dt_bias", f"dt_proj{mark}.bias").replace("A_log", "A_b_log" if mark else "A_log")
        name = re.sub(r"(x|dt)_proj$", rf"\1_proj{mark}.weight", name)
        name = re.sub(r"\.D$", f".D{mark}", name).replace("mixer.conv.", f"mixer.conv1d{mark}.")
        state[name] = tensor.clone()
    return state


def test_released_checkpoints_load(tmp_path):
    model = shaken(small("vim_tiny")).eval()
    state = released(model)
    mixer = "layers.0.mixer."
    for name in ("A_log", "A_b_log", "D", "D_b", "conv1d_b.bias", "x_proj_b.weight", "dt_proj.bias", "in_proj.weight"):
        assert mixer + name in state
    assert state[mixer + "x_proj.weight"].shape == (1 + 2 * 3, 32)
    assert {"cls_token", "pos_embed", "patch_embed.proj.weight", "norm_f.weight", "head.bias"} <= state.keys()
    other = timm.create_model("vim_tiny", num_classes=5, **SMALL).eval()
    other.load_state_dict(state)
    assert torch.equal(other(images()), model(images()))
    torch.save({"model": state}, tmp_path / "released.pth")
    path = str(tmp_path / "released.pth")
    by_path = timm.create_model("vim_tiny", num_classes=5, checkpoint_path=path, **SMALL).eval()
    assert torch.equal(by_path(images()), model(images()))


@both_families
def test_own_checkpoints_load_and_wrong_ones_are_refused_by_name(name):
    model, other = small(name).eval(), timm.create_model(name, num_classes=5, **SMALL).eval()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(images()), model(images()))
    broken = model.state_dict()
    broken["extra"] = broken.pop("blocks.1.mixer.directions.0.s6.A_log")
    with pytest.raises(RuntimeError, match=r"(?s)Missing.*directions\.0\.s6\.A_log.*Unexpected.*extra"):
        other.load_state_dict(broken)


def test_images_of_other_sizes():
    model = small("vim_tiny").eval()
    for height, width in ((4, 4), (12, 20), (13, 18), (24, 8)):
        assert model(images(2, height, width)).shape == (2, 5)
    odd = images(2, 13, 18)
    assert torch.equal(model(odd), model(F.pad(odd, (0, 2, 0, 3)))), "filled with zeros below and to the right"
    with torch.no_grad():
        model.pos_embed.fill_(2.0)
        model.pos_embed[:, 7] = 5.0
    positions = resampled(model.pos_embed, True, (3, 5), (4, 6))
    assert positions.shape == (1, 25, 16)
    torch.testing.assert_close(positions[:, 12], torch.full((1, 16), 5.0))
    torch.testing.assert_close(positions[:, :12], torch.full((1, 12, 16), 2.0))
    torch.testing.assert_close(positions[:, 13:], torch.full((1, 12, 16), 2.0))


@both_families
def test_impossible_architectures_are_refused(name):
    with pytest.raises(ValueError, match="depth ≥ 1, got 0"):
        timm.create_model(name, depth=0)


@both_families
def test_class_tokens_come_beside_the_maps(name):
    model = small(name).eval()
    final, maps = model.forward_intermediates(images(), norm=True)
    _, pairs = model.forward_intermediates(images(), norm=True, return_prefix_tokens=True)
    assert model.num_prefix_tokens == 0, "nothing stands before the patches"
    if name == "vim_tiny":
        assert torch.equal(pairs[-1][0], maps[-1])
        assert torch.equal(pairs[-1][1], final[:, 7:8])
    else:
        assert torch.equal(pairs[-1], maps[-1])
    (raw,) = model.forward_intermediates(images(), indices=[1], stop_early=True, intermediates_only=True)
    torch.testing.assert_close(model.norm(raw.movedim(1, -1)).movedim(-1, 1), maps[1])
    torch.testing.assert_close(maps[-1].flatten(2).mT, apart(final, name == "vim_tiny")[1])


@pytest.mark.slow
@both_families
def test_compiles_for_another_size(name):
    model = small(name, depth=1).eval()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        for size in ((12, 20), (9, 16)):
            torch.testing.assert_close(compiled(images(2, *size)), model(images(2, *size)))


@both_families
def test_the_stream_stays_in_float32(name):
    model = small(name).bfloat16().eval()
    seen = []
    for block in model.blocks:
        block.register_forward_hook(lambda _, inputs, output: seen.extend([inputs[0].dtype, output.dtype]))
        block.mixer.register_forward_hook(lambda _, inputs, output: seen.append(output.dtype))
    logits = model(images().bfloat16())
    assert logits.dtype == torch.bfloat16
    assert seen == [torch.bfloat16, torch.float32, torch.float32] * 3
    full = small(name).eval()
    with torch.autocast("cpu", torch.bfloat16):
        under_autocast = full(images())
    assert (under_autocast.float() - full(images())).abs().max() < 0.1 * full(images()).std()


def test_config_is_a_value():
    assert VimConfig(width=32) == VimConfig(width=32)
    assert Vim(num_classes=2, width=8, depth=1, img_size=32).config.grid == (2, 2)
