"""MSVMamba against the published facts: parameters, the block's equations, checkpoints, timm's contract."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from spectral_vmamba.layers.multi_scale import MultiScaleMixer, PatchMerging
from spectral_vmamba.models import timm
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.orders import concatenated_cells
from spectral_vmamba.ops.traversal import PatternTraversal
from spectral_vmamba.testing import activate_scan

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
    assert count(model.embedding) == stem
    assert [{count(block) for block in stage.blocks} for stage in model.stages] == [{number} for number in blocks]
    assert [count(stage.downsample) for stage in model.stages[1:]] == downsamples


def test_pico_matches_spectral_nano():
    ours, spectral = (on_meta(name, num_classes=10) for name in ("msvmamba_pico", "spectral_vmamba_nano"))
    assert count(ours) == 1_059_746
    assert abs(count(ours) / count(spectral) - 1) < 0.05
    assert [len(stage.blocks) for stage in ours.stages] == [len(stage.blocks) for stage in spectral.stages]


# -- the equations ------------------------------------------------------------------------------------------------


def plain_norm(x, norm):
    deviation = x - x.mean(-1, keepdim=True)
    return deviation / (deviation.square().mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def plain_scan(s6, tokens):
    """The outputs of one parameter set for a list of tokens, one after the other."""
    h, outputs = torch.zeros(tokens[0].numel(), s6.state_size).to(tokens[0]), []
    for u in tokens:
        dt, B, C = (s6.x_proj[0] @ u).split([s6.rank, s6.state_size, s6.state_size])
        Δ = F.softplus(s6.dt_proj[0] @ dt + s6.dt_bias[0])[:, None]
        h = torch.exp(-Δ * s6.A_log[0].exp()) * h + Δ * B * u[:, None]
        outputs.append(h @ C + s6.D[0] * u)
    return outputs


def bilinear_weights(new, old):
    """(new, old) weights of linear interpolation between cell centres, constant beyond the outermost ones."""
    weights = torch.zeros(new, old, dtype=torch.float64)
    for i in range(new):
        place = min(max((i + 0.5) * old / new - 0.5, 0.0), old - 1.0)
        below = int(place)
        weights[i, below] += 1 - (place - below)
        weights[i, min(below + 1, old - 1)] += place - below
    return weights


def plain_mixer(mixer, x, height, width):
    inner = mixer.out_proj.in_features
    projected = x @ mixer.in_proj.weight.T
    maps, gate = projected[:, :inner].T.reshape(1, inner, height, width), projected[:, inner:]
    fine = F.silu(F.conv2d(maps, mixer.fine_conv.weight, mixer.fine_conv.bias, padding=1, groups=inner))[0]
    kernel, bias = mixer.coarse_conv.weight, mixer.coarse_conv.bias
    coarse = F.silu(F.conv2d(maps, kernel, bias, stride=2, padding=3, groups=inner))[0]
    h1, w1 = (height + 1) // 2, (width + 1) // 2
    assert coarse.shape[1:] == (h1, w1)
    by_row = [(r, c) for r in range(h1) for c in range(w1)]
    by_column = [(r, c) for c in range(w1) for r in range(h1)]
    visited = by_row[::-1] + by_column + by_column[::-1]
    added = {cell: 0 for cell in by_row}
    for cell, y in zip(visited, plain_scan(mixer.coarse_scan, [coarse[:, r, c] for r, c in visited]), strict=True):
        added[cell] = added[cell] + plain_norm(y, mixer.out_norm)
    coarse = torch.stack([added[cell] for cell in by_row]).reshape(h1, w1, inner)
    coarse = torch.einsum("hr,wc,rcd->hwd", bilinear_weights(height, h1), bilinear_weights(width, w1), coarse)
    cells = [(r, c) for r in range(height) for c in range(width)]
    fine = torch.stack(plain_scan(mixer.fine_scan, [fine[:, r, c] for r, c in cells]))
    y = plain_norm(fine, mixer.out_norm) + coarse.reshape(-1, inner)
    weights = mixer.excite.expand.weight @ F.relu(mixer.excite.squeeze.weight @ y.mean(0))
    return (y / (1 + torch.exp(-weights)) * F.silu(gate)) @ mixer.out_proj.weight.T


def plain_ffn(ffn, x, height, width):
    t = x @ ffn.widen.weight[:, :, 0, 0].T + ffn.widen.bias
    maps = t.T.reshape(1, -1, height, width)
    maps = F.conv2d(maps, ffn.depthwise.weight, ffn.depthwise.bias, padding=1, groups=maps.shape[1])
    t = t + maps[0].flatten(1).T
    return (t * (1 + torch.erf(t / 2**0.5)) / 2) @ ffn.narrow.weight[:, :, 0, 0].T + ffn.narrow.bias


def plain_block(block, x, height, width):
    """One block as its equations stand, token after token; x (tokens, channels) of one image, row by row."""
    x = x + plain_mixer(block.mixer, plain_norm(x, block.mixer_norm), height, width)
    return x + plain_ffn(block.ffn, plain_norm(x, block.ffn_norm), height, width)


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


@pytest.mark.parametrize("size", GRIDS)
def test_patch_merging_is_its_equations(size):
    merging = PatchMerging(6, 10).double()
    nn.init.normal_(merging.norm.weight)
    height, width = size
    x = torch.randn(2, height * width, 6).double()
    found, halved = merging(x, raster(size, 2))
    assert (halved.grid.height, halved.grid.width) == ((height + 1) // 2, (width + 1) // 2)
    padded = torch.zeros(2, height + 1, width + 1, 6).double()
    padded[:, :height, :width] = x.reshape(2, height, width, 6)
    expected = []
    for r in range(0, height, 2):
        for c in range(0, width, 2):
            phases = [padded[:, r, c], padded[:, r + 1, c], padded[:, r, c + 1], padded[:, r + 1, c + 1]]
            expected.append(plain_norm(torch.cat(phases, -1), merging.norm) @ merging.reduction.weight.T)
    torch.testing.assert_close(found, torch.stack(expected, 1))


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
    assert torch.equal(seen[0], tokens[:, concatenated_cells(("h_flip", "v", "v_flip"), 3, 2)])


# -- checkpoints --------------------------------------------------------------------------------------------------


def released(model) -> dict[str, torch.Tensor]:
    """The model's weights as the released checkpoints name and shape them."""
    state, own = {}, model.state_dict()
    for name, tensor in own.items():
        if "fine_scan" in name:
            continue
        if "coarse_scan" in name:
            tensor = torch.cat([tensor, own[name.replace("coarse_scan", "fine_scan")]])
        name = re.sub(r"^embedding\.stem\.(\d)", lambda m: f"patch_embed.{2 * int(m[1])}", name)
        name = re.sub(r"^stages\.(\d)\.downsample", lambda m: f"layers.{int(m[1]) - 1}.downsample", name)
        name = name.replace("stages.", "layers.").replace("mixer_norm", "norm").replace("ffn_norm", "norm2")
        name = name.replace("mixer.coarse_conv", "op.conv2d_low").replace("mixer.fine_conv", "op.conv2d")
        name = name.replace("excite.squeeze", "se.fc1").replace("excite.expand", "se.fc2").replace("mixer.", "op.")
        name = name.replace("ffn.widen", "mlp.fc1").replace("ffn.narrow", "mlp.fc2").replace("ffn.dep", "mlp.dep")
        name = name.replace("mlp.depthwise", "mlp.dwconv")
        name = name.replace("coarse_scan.x_proj", "x_proj_weight").replace("coarse_scan.dt_proj", "dt_projs_weight")
        name = name.replace("coarse_scan.dt_bias", "dt_projs_bias")
        name = name.replace("coarse_scan.A_log", "A_logs").replace("coarse_scan.D", "Ds")
        name = re.sub(r"^(norm|head)\.", r"classifier.\1.", name)
        state[name] = (tensor.flatten(0, 1) if name.endswith(("A_logs", "Ds")) else tensor).clone()
    return state


def test_released_checkpoints_load(tmp_path):
    model = stirred(timm.create_model("msvmamba_tiny", num_classes=5, **SMALL)).eval()
    state = released(model)
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


def test_our_own_checkpoints_load():
    model, other = (timm.create_model("msvmamba_pico", num_classes=3).eval() for _ in range(2))
    other.load_state_dict(model.state_dict())
    images = torch.randn(1, 3, 32, 32)
    assert torch.equal(other(images), model(images))


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


def test_initial_weights():
    model = timm.create_model("msvmamba_pico", num_classes=10)
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            assert 0.01 < module.weight.std() < 0.03, name
            assert module.bias is None or not module.bias.any(), name
        if isinstance(module, nn.Conv2d):
            bound = (module.in_channels // module.groups * module.kernel_size[0] ** 2) ** -0.5
            assert 0.9 * bound < module.weight.abs().max() <= bound, name
            assert module.bias.any(), name
    for stage in model.stages:
        for s6 in (stage.blocks[0].mixer.fine_scan, stage.blocks[0].mixer.coarse_scan):
            Δ = F.softplus(s6.dt_bias)
            assert 0.9e-3 < Δ.min() < Δ.max() < 1.1e-1
            assert not s6.A_log.any()
            assert (s6.D == 1).all()


@pytest.mark.parametrize("channels", [1, 4])
def test_any_size_and_channels(channels):
    model = timm.create_model("msvmamba_pico", num_classes=3, in_chans=channels).eval()
    with torch.no_grad():
        for size in ((33, 50), (4, 4), (4, 61)):
            assert model(torch.randn(1, channels, *size)).shape == (1, 3)


def test_incomplete_patches_are_filled_with_zeros_right_and_below():
    model = activate_scan(timm.create_model("msvmamba_pico", num_classes=3)).eval()
    images = torch.randn(2, 3, 33, 50)
    with torch.no_grad():
        assert torch.equal(model(images), model(F.pad(images, (0, 2, 0, 3))))


def test_an_image_below_one_patch_is_refused():
    model = timm.create_model("msvmamba_pico", num_classes=3)
    with pytest.raises(ValueError, match=r"at least 4 × 4 pixels.*got 3 × 20; enlarge or pad"):
        model(torch.randn(1, 3, 3, 20))


def test_a_depth_for_every_width():
    with pytest.raises(ValueError, match="one depth per width"):
        timm.create_model("msvmamba_pico", depths=(1, 1))


def test_a_row_of_a_batch_is_a_batch_of_one():
    model = activate_scan(timm.create_model("msvmamba_tiny", num_classes=3, **SMALL)).double().eval()
    images = torch.randn(3, 3, 20, 28).double()
    with torch.no_grad():
        torch.testing.assert_close(model(images)[1:2], model(images[1:2]), rtol=1e-10, atol=1e-12)


def test_gradient_checkpointing_gives_equal_gradients():
    model = activate_scan(timm.create_model("msvmamba_tiny", num_classes=3, **SMALL)).train()
    images, gradients = torch.randn(2, 3, 24, 20), []
    for checkpointing in (False, True):
        model.set_grad_checkpointing(checkpointing)
        model.zero_grad()
        torch.manual_seed(3)  # drop path
        model(images).square().sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    for plain, checkpointed in zip(*gradients, strict=True):
        assert torch.equal(plain, checkpointed)
        assert plain.any()


def test_feature_maps_of_four_stages():
    narrow = {"widths": (8, 16, 24, 32), "depths": (1, 1, 1, 1)}
    model = timm.create_model("msvmamba_nano", features_only=True, **narrow).eval()
    with torch.no_grad():
        maps = model(torch.randn(2, 3, 40, 72))
    assert [tuple(m.shape) for m in maps] == [(2, 8, 10, 18), (2, 16, 5, 9), (2, 24, 3, 5), (2, 32, 2, 3)]
    assert model.feature_info.reduction() == [4, 8, 16, 32]


def test_the_scans_parameters_are_not_decayed():
    undecayed = timm.create_model("msvmamba_tiny", **SMALL).no_weight_decay()
    assert len(undecayed) == 3 * 2 * 3  # blocks, scans, kinds
    assert "stages.0.blocks.0.mixer.coarse_scan.A_log" in undecayed


def test_compiles_whole_in_training():
    model = activate_scan(timm.create_model("msvmamba_tiny", num_classes=3, drop_path_rate=0.0, **SMALL)).train()
    images = torch.randn(2, 3, 20, 28)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    found = compiled(images)
    found.square().sum().backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    expected = model(images)
    expected.square().sum().backward()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for a, p in zip(gradients, model.parameters(), strict=True):
        torch.testing.assert_close(a, p.grad, rtol=1e-3, atol=1e-5)


def test_exports_with_a_dynamic_batch():
    model = activate_scan(timm.create_model("msvmamba_tiny", num_classes=3, **SMALL)).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (torch.randn(2, 3, 20, 28),), dynamic_shapes=({0: batch},))
    for size in (1, 5):
        x = torch.randn(size, 3, 20, 28)
        torch.testing.assert_close(program.module()(x), model(x), rtol=1e-4, atol=1e-5)
