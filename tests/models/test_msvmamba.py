"""MSVMamba against the published facts: parameters, the equations of its blocks and of the whole, checkpoints."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from spectral_vmamba.layers.multi_scale import MultiScaleMixer, PatchMerging
from spectral_vmamba.models import timm
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.orders import direction_cells
from spectral_vmamba.ops.traversal import PatternTraversal
from spectral_vmamba.testing import activate_scan
from tests.support.plain_msvmamba import plain_block, plain_merging, plain_network

TOTALS = {
    ("msvmamba_nano", 1000): 6_864_136,
    ("msvmamba_nano", 100): 6_517_636,
    ("msvmamba_micro", 1000): 11_879_272,
    ("msvmamba_micro", 100): 11_417_572,
    ("msvmamba_tiny", 1000): 33_046_312,
    ("msvmamba_tiny", 100): 32_354_212,
}
PARTS = {  # stem, each stage's blocks, each downsampling
    "msvmamba_nano": (2_448, [34_704, 122_400, 456_768, 1_761_408], [18_816, 74_496, 296_448]),
    "msvmamba_micro": (3_264, [58_048, 210_304, 797_440, 3_102_208], [33_280, 132_096, 526_336]),
    "msvmamba_tiny": (4_896, [122_400, 456_768, 1_761_408, 6_914_304], [74_496, 296_448, 1_182_720]),
}
SMALL = {"widths": (16, 32), "depths": (1, 2)}
GRIDS = [(3, 5), (1, 4), (5, 1), (1, 1), (4, 2)]


def count(module) -> int:
    return sum(p.numel() for p in module.parameters())


def on_meta(name, **options):
    with torch.device("meta"):
        return timm.create_model(name, **options)


def raster(size, batch=1):
    return PatternTraversal.of("raster", Grid(*size), batch, torch.device("cpu"))


@pytest.mark.parametrize(("name", "classes"), TOTALS)
def test_parameters_are_the_published_ones(name, classes):
    assert count(on_meta(name, num_classes=classes)) == TOTALS[name, classes]


@pytest.mark.parametrize("name", PARTS)
def test_parameters_of_the_parts(name):
    model = on_meta(name)
    stem, blocks, downsamples = PARTS[name]
    assert count(model.tokenizer) == stem
    assert [{count(block) for block in stage.blocks} for stage in model.stages] == [{number} for number in blocks]
    assert [count(stage.downsample) for stage in model.stages[1:]] == downsamples


def test_pico_matches_spectral_nano():
    ours, spectral = (on_meta(name, num_classes=10) for name in ("msvmamba_pico", "spectral_vmamba_nano"))
    assert count(ours) == 1_059_746
    assert abs(count(ours) / count(spectral) - 1) < 0.05
    assert [len(stage.blocks) for stage in ours.stages] == [len(stage.blocks) for stage in spectral.stages]


# -- the equations ------------------------------------------------------------------------------------------------


def stirred(model):
    """Weights far from the initial ones, so that no term is too small to be missed."""
    with torch.no_grad():
        for parameter in activate_scan(model).parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


@pytest.mark.parametrize("size", GRIDS)
@pytest.mark.parametrize("state_size", [1, 3])
def test_a_block_is_its_equations_with_gradients(size, state_size):
    torch.manual_seed(0)
    model = stirred(timm.create_model("msvmamba_tiny", state_size=state_size, **SMALL)).double().eval()
    block = model.stages[1].blocks[0]
    tokens = size[0] * size[1]
    x = torch.randn(1, tokens, 32, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(tokens, 32).double()
    found, expected = block(x, raster(size))[0], plain_block(block, x[0], *size)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    names, parameters = zip(*block.named_parameters(), strict=True)
    gradients = [torch.autograd.grad((y * weight).sum(), [x, *parameters]) for y in (found, expected)]
    for name, a, b in zip(("x", *names), *gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-9, msg=lambda message, name=name: f"{name}: {message}")


def test_the_network_is_its_equations():
    options = {"widths": (8, 16, 24), "depths": (1, 1, 1), "num_classes": 5}
    model = stirred(timm.create_model("msvmamba_tiny", **options)).double().eval()
    images = torch.randn(2, 3, 20, 28).double()
    with torch.no_grad():
        torch.testing.assert_close(model(images), plain_network(model, images), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", GRIDS)
def test_patch_merging_is_its_equations(size):
    merging = PatchMerging(6, 10).double()
    nn.init.normal_(merging.norm.weight)
    height, width = size
    x = torch.randn(2, height * width, 6).double()
    found, halved = merging(x, raster(size, 2))
    assert (halved.grid.height, halved.grid.width) == ((height + 1) // 2, (width + 1) // 2)
    torch.testing.assert_close(found, plain_merging(merging, x.reshape(2, height, width, 6)).flatten(1, 2))


def test_the_state_crosses_the_joins():
    mixer = activate_scan(MultiScaleMixer(16)).eval()
    seen = []
    mixer.coarse_scan.register_forward_hook(lambda module, inputs, output: seen.append((*inputs, output)))
    with torch.no_grad():
        mixer(torch.randn(1, 5 * 7, 16), raster((5, 7)))
        (visits, steps, before), part = seen[0], 3 * 4
        changed = visits.clone()
        changed[:, part - 1] += 1.0
        after = mixer.coarse_scan(changed, steps)
    assert visits.shape == (1, 3 * part, 32)
    assert torch.equal(steps[0, 0], torch.arange(3 * part)), "one sequence, in the order it stands in"
    assert torch.equal(after[:, : part - 1], before[:, : part - 1]), "what came before hears nothing"
    assert (after[:, part : part + 3] != before[:, part : part + 3]).any(-1).all(), "the next part does"


def test_the_coarse_sequence_is_three_orders_end_to_end():
    mixer = MultiScaleMixer(16)
    seen = []
    mixer.coarse_scan.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    maps = torch.randn(2, 32, 5, 3)
    mixer.coarse(maps, Grid(5, 3))
    tokens = F.silu(mixer.coarse_conv(maps)).flatten(2).mT
    parts = [tokens[:, direction_cells(direction, 3, 2)] for direction in ("h_flip", "v", "v_flip")]
    assert torch.equal(seen[0], torch.cat(parts, dim=1))


# -- checkpoints --------------------------------------------------------------------------------------------------


def released(model) -> dict[str, torch.Tensor]:
    """The model's weights as the released checkpoints name and shape them."""
    state, own = {}, model.state_dict()
    for name, tensor in own.items():
        if "fine_scan" in name:
            continue
        if "coarse_scan" in name:
            tensor = torch.cat([tensor, own[name.replace("coarse_scan", "fine_scan")]])
        name = re.sub(r"^tokenizer\.stem\.(\d)", lambda m: f"patch_embed.{2 * int(m[1])}", name)
        name = re.sub(r"^stages\.(\d)\.downsample", lambda m: f"layers.{int(m[1]) - 1}.downsample", name)
        name = name.replace("stages.", "layers.").replace("mixer_norm", "norm").replace("ffn_norm", "norm2")
        name = name.replace("mixer.coarse_conv", "op.conv2d_b1").replace("mixer.fine_conv", "op.conv2d")
        name = name.replace("excite.squeeze", "se.fc.0").replace("excite.expand", "se.fc.2").replace("mixer.", "op.")
        name = name.replace("ffn.widen", "convFFN.linear1").replace("ffn.narrow", "convFFN.linear2")
        name = name.replace("ffn.depthwise", "convFFN.dwc")
        name = name.replace("coarse_scan.x_proj", "x_proj_weight").replace("coarse_scan.dt_proj", "dt_projs_weight")
        name = name.replace("coarse_scan.dt_bias", "dt_projs_bias")
        name = name.replace("coarse_scan.A_log", "A_logs").replace("coarse_scan.D", "Ds")
        name = re.sub(r"^(norm|head)\.", r"classifier.\1.", name)
        state[name] = (tensor.flatten(0, 1) if name.endswith(("A_logs", "Ds")) else tensor).clone()
    return state


def test_released_checkpoints_load(tmp_path):
    model = stirred(timm.create_model("msvmamba_tiny", num_classes=5, **SMALL)).eval()
    state = released(model)
    for name in ("op.conv2d_b1.bias", "op.se.fc.0.weight", "op.se.fc.2.weight", "op.conv2d.weight"):
        assert f"layers.1.blocks.0.{name}" in state
    for name in ("linear1.weight", "dwc.weight", "linear2.bias"):
        assert f"layers.1.blocks.1.convFFN.{name}" in state
    shapes = {name.split("op.")[1]: tuple(t.shape) for name, t in state.items() if "layers.1.blocks.0.op." in name}
    assert shapes["x_proj_weight"] == (2, 2 + 2, 64)
    assert shapes["dt_projs_weight"] == (2, 64, 2)
    assert shapes["dt_projs_bias"] == (2, 64)
    assert shapes["A_logs"] == (2 * 64, 1)
    assert shapes["Ds"] == (2 * 64,)
    images = torch.randn(2, 3, 40, 36)
    other = timm.create_model("msvmamba_tiny", num_classes=5, **SMALL).eval()
    assert not torch.equal(other(images), model(images))
    other.load_state_dict(state)
    assert torch.equal(other(images), model(images))
    torch.save({"model": state}, tmp_path / "released.pth")
    options = {"num_classes": 5, "checkpoint_path": str(tmp_path / "released.pth"), **SMALL}
    assert torch.equal(timm.create_model("msvmamba_tiny", **options).eval()(images), model(images))


def test_the_first_stacked_set_is_the_coarse_one():
    model = timm.create_model("msvmamba_tiny", num_classes=5, **SMALL)
    state = released(model)
    state["layers.0.blocks.0.op.Ds"] = torch.arange(64.0)
    model.load_state_dict(state)
    mixer = model.stages[0].blocks[0].mixer
    assert torch.equal(mixer.coarse_scan.D, torch.arange(32.0)[None])
    assert torch.equal(mixer.fine_scan.D, torch.arange(32.0, 64.0)[None])


def test_unknown_and_missing_names_are_listed(tmp_path):
    model = timm.create_model("msvmamba_tiny", num_classes=5, **SMALL)
    state = released(model)
    state["layers.0.blocks.0.op.another"] = state.pop("layers.0.blocks.0.op.A_logs")
    torch.save({"model": state}, tmp_path / "broken.pth")
    listed = r"(?s)Missing key.*fine_scan\.A_log.*Unexpected key.*op\.another"
    with pytest.raises(RuntimeError, match=listed):
        model.load_state_dict(state)
    with pytest.raises(RuntimeError, match=listed):
        timm.create_model("msvmamba_tiny", num_classes=5, checkpoint_path=str(tmp_path / "broken.pth"), **SMALL)


# -- the network --------------------------------------------------------------------------------------------------


def test_any_size():
    model = timm.create_model("msvmamba_pico", num_classes=3).eval()
    with torch.no_grad():
        for size in ((33, 50), (4, 4), (4, 61)):
            assert model(torch.randn(1, 3, *size)).shape == (1, 3)


def test_incomplete_patches_are_filled_with_zeros_right_and_below():
    model = activate_scan(timm.create_model("msvmamba_pico", num_classes=3)).eval()
    images = torch.randn(2, 3, 33, 50)
    with torch.no_grad():
        assert torch.equal(model(images), model(F.pad(images, (0, 2, 0, 3))))
