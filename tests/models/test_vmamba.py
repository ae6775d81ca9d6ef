"""VMamba against the published facts: parameters, the block's equations, both dialects of its checkpoints."""

import re

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

import spectral_vmamba
from spectral_vmamba.models import timm
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.orders import pattern_orders, random_pattern
from spectral_vmamba.ops.traversal import PatternTraversal
from spectral_vmamba.testing import activate_scan

TOTALS = {
    ("vmamba_tiny", 1000): 30_249_064,
    ("vmamba_tiny", 100): 29_556_964,
    ("vmamba_small", 1000): 50_147_752,
    ("vmamba_small", 100): 49_455_652,
    ("vmamba_base", 1000): 88_557_800,
    ("vmamba_base", 100): 87_635_300,
}
STEMS = {"vmamba_tiny": 43_200, "vmamba_small": 43_200, "vmamba_base": 76_032}
# Blocks and the downsampling after them, as upstream counts stages.
STAGES = {
    "vmamba_tiny": (367_680, 1_454_208, 15_165_696, 12_447_744),
    "vmamba_small": (419_712, 1_650_432, 31_819_392, 15_444_480),
    "vmamba_base": (739_840, 2_921_472, 56_385_024, 27_408_384),
}
SMALL = {"widths": (16, 32), "depths": (1, 2)}


def count(module) -> int:
    return sum(p.numel() for p in module.parameters())


def on_meta(name, **options):
    with torch.device("meta"):
        return timm.create_model(name, **options)


@pytest.mark.parametrize(("name", "classes"), TOTALS)
def test_parameters_are_the_published_ones(name, classes):
    assert count(on_meta(name, num_classes=classes)) == TOTALS[name, classes]


@pytest.mark.parametrize("name", STEMS)
def test_parameters_of_the_parts(name):
    model = on_meta(name)
    assert count(model.tokenizer) == STEMS[name]
    downsamples = [count(stage.downsample) for stage in model.stages[1:]] + [0]
    blocks = [count(stage.blocks) for stage in model.stages]
    assert tuple(b + d for b, d in zip(blocks, downsamples, strict=True)) == STAGES[name]


def test_parameters_of_tinys_blocks():
    model = on_meta("vmamba_tiny")
    assert [count(stage.blocks[0]) for stage in model.stages] == [100_608, 394_752, 1_563_648, 6_223_872]
    assert [count(stage.downsample) for stage in model.stages[1:]] == [166_464, 664_704, 2_656_512]


def plain_block(block, x, height, width):
    """One block as its equations stand, token after token; x (tokens, channels) of one image, row by row."""
    mixer, s6 = block.mixer, block.mixer.s6
    u = F.linear(F.layer_norm(x, x.shape[-1:], block.mixer_norm.weight, block.mixer_norm.bias), mixer.in_proj.weight)
    maps = u.T.reshape(1, -1, height, width)
    maps = F.conv2d(maps, mixer.local_mixing.conv.weight, padding=1, groups=maps.shape[1])
    u = F.silu(maps)[0].flatten(1).T
    raster = [r * width + c for r in range(height) for c in range(width)]
    columns = [r * width + c for c in range(width) for r in range(height)]
    merged = torch.zeros_like(u)
    for i, order in enumerate((raster, columns, raster[::-1], columns[::-1])):
        h, out = torch.zeros(u.shape[1], s6.state_size).to(u), {}
        for token in order:
            dt, B, C = (s6.x_proj[i] @ u[token]).split([s6.rank, s6.state_size, s6.state_size])
            Δ = F.softplus(s6.dt_proj[i] @ dt + s6.dt_bias[i])[:, None]
            h = torch.exp(-Δ * s6.A_log[i].exp()) * h + Δ * B * u[token][:, None]
            out[token] = h @ C + s6.D[i] * u[token]
        merged = merged + torch.stack([out[token] for token in range(len(order))])
    y = F.layer_norm(merged, merged.shape[-1:], mixer.out_norm.weight, mixer.out_norm.bias)
    x = x + F.linear(y, mixer.out_proj.weight)
    z = F.layer_norm(x, x.shape[-1:], block.mlp_norm.weight, block.mlp_norm.bias)
    z = F.linear(F.gelu(F.linear(z, block.mlp[0].weight, block.mlp[0].bias)), block.mlp[2].weight, block.mlp[2].bias)
    return x + z


@pytest.mark.parametrize("size", [(3, 5), (1, 4)])
@pytest.mark.parametrize("state_size", [1, 3])
def test_a_block_is_its_equations_with_gradients(size, state_size):
    torch.manual_seed(0)
    model = activate_scan(timm.create_model("vmamba_tiny", expand=2.0, state_size=state_size, **SMALL)).double().eval()
    block = model.stages[1].blocks[0]
    tokens = size[0] * size[1]
    x = torch.randn(1, tokens, 32, dtype=torch.float64, requires_grad=True)
    traversal = PatternTraversal.of("cross", Grid(*size), 1, x.device)
    weight = torch.randn(tokens, 32).double()
    found, expected = block(x, traversal)[0], plain_block(block, x[0], *size)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    inputs = [x, *block.parameters()]
    gradients = [torch.autograd.grad((y * weight).sum(), inputs) for y in (found, expected)]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def over_channels(maps, norm):
    return F.layer_norm(maps.movedim(1, -1), (maps.shape[1],), norm.weight, norm.bias).movedim(-1, 1)


def plain_network(model, image):
    """The whole network as its equations stand; image (1, 3, H, W)."""
    first, first_norm, _, second, second_norm = model.tokenizer.stem
    maps = F.conv2d(image, first.weight, first.bias, stride=2, padding=1)
    maps = F.gelu(over_channels(maps, first_norm))
    maps = over_channels(F.conv2d(maps, second.weight, second.bias, stride=2, padding=1), second_norm)
    for stage in model.stages:
        if stage.downsample is not None:
            conv, norm = stage.downsample.conv, stage.downsample.norm
            maps = over_channels(F.conv2d(maps, conv.weight, conv.bias, stride=2, padding=1), norm)
        height, width = maps.shape[-2:]
        for block in stage.blocks:
            tokens = plain_block(block, maps[0].flatten(1).T, height, width)
            maps = tokens.T.reshape(1, -1, height, width)
    tokens = over_channels(maps, model.norm)[0].flatten(1).T
    return model.head.weight @ tokens.mean(0) + model.head.bias


def test_the_network_is_its_equations():
    options = {"widths": (8, 16, 24), "depths": (1, 1, 1), "num_classes": 5}
    model = activate_scan(timm.create_model("vmamba_tiny", **options)).double().eval()
    images = torch.randn(2, 3, 21, 30).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 5)
        expected = torch.stack([plain_network(model, image) for image in images.split(1)])
        torch.testing.assert_close(model(images), expected, rtol=1e-9, atol=1e-9)


def released(model, one_file: bool, convolutions: bool) -> dict[str, torch.Tensor]:
    """The model's weights as the released checkpoints name and shape them."""
    state = {}
    for name, tensor in model.state_dict().items():
        name = re.sub(r"^tokenizer\.stem\.(\d)", lambda m: f"patch_embed.{[0, 2, 4, 5, 7][int(m[1])]}", name)
        name = re.sub(r"^stages\.(\d)\.downsample\.conv", lambda m: f"layers.{int(m[1]) - 1}.downsample.1", name)
        name = re.sub(r"^stages\.(\d)\.downsample\.norm", lambda m: f"layers.{int(m[1]) - 1}.downsample.3", name)
        name = name.replace("stages.", "layers.").replace("mixer_norm", "norm").replace("mlp_norm", "norm2")
        name = name.replace("mlp.0", "mlp.fc1").replace("mlp.2", "mlp.fc2")
        name = name.replace("mixer.local_mixing.conv", "mixer.conv2d").replace("mixer.", "op.")
        joint = "." if one_file else "_"
        name = name.replace("s6.x_proj", f"x_proj{joint}weight").replace("s6.dt_proj", f"dt_projs{joint}weight")
        name = name.replace("s6.dt_bias", "dt_projs_bias").replace("s6.A_log", "A_logs").replace("s6.D", "Ds")
        name = re.sub(r"^(norm|head)\.", r"classifier.\1.", name)
        flat = ("A_logs", "Ds", "x_proj.weight", "dt_projs.weight")
        tensor = tensor.flatten(0, 1) if name.endswith(flat) else tensor
        if convolutions and re.search(r"(in_proj|out_proj|fc1|fc2)\.weight$", name):
            tensor = tensor[:, :, None, None]
        state[name] = tensor.clone()
    return state


@pytest.mark.parametrize("one_file", [False, True])
@pytest.mark.parametrize("convolutions", [False, True])
def test_released_checkpoints_load(one_file, convolutions, tmp_path):
    model = activate_scan(timm.create_model("vmamba_tiny", num_classes=5, **SMALL)).eval()
    state = released(model, one_file, convolutions)
    assert "layers.0.blocks.0.op.A_logs" in state
    assert state["layers.0.blocks.0.op.A_logs"].shape == (64, 1)
    images = torch.randn(2, 3, 40, 36)
    other = timm.create_model("vmamba_tiny", num_classes=5, **SMALL).eval()
    other.load_state_dict(state)
    assert torch.equal(other(images), model(images))
    torch.save({"model": state}, tmp_path / "released.pth")
    by_path = timm.create_model(
        "vmamba_tiny", num_classes=5, checkpoint_path=str(tmp_path / "released.pth"), **SMALL
    ).eval()
    assert torch.equal(by_path(images), model(images))


def test_a_checkpoint_of_another_architecture_is_refused_by_name(tmp_path):
    other = timm.create_model("spectral_vmamba_nano", num_classes=5)
    save_file(other.state_dict(), tmp_path / "other.safetensors")
    with pytest.raises(
        RuntimeError, match=r"(?s)Missing key.*tokenizer\.stem\.0\.weight.*Unexpected key.*tokenizer\.rfn"
    ):
        timm.create_model("vmamba_nano", num_classes=5, checkpoint_path=str(tmp_path / "other.safetensors"))
    broken = timm.create_model("vmamba_nano", num_classes=5).state_dict()
    broken["extra"] = broken.pop("stages.0.blocks.0.mixer.s6.A_log")
    with pytest.raises(RuntimeError, match=r"(?s)A_log.*extra"):
        timm.create_model("vmamba_nano", num_classes=5).load_state_dict(broken)


def test_any_size_and_any_orders():
    model = spectral_vmamba.create_model("vmamba_nano", num_classes=3, orders=("w2", "v_flip")).eval()
    assert model(torch.randn(1, 3, 33, 50)).shape == (1, 3)
    shuffled = spectral_vmamba.create_model("vmamba_nano", num_classes=3, orders="random").eval()
    _, traversals = shuffled.forward_traversals(torch.randn(2, 3, 32, 32))
    for traversal in traversals:
        assert torch.equal(traversal.orders[1], pattern_orders(random_pattern(4), traversal.grid))
    custom = spectral_vmamba.create_model(
        "vmamba_nano", num_classes=3, orders=lambda grid: torch.arange(len(grid.numbers("cells")))[None]
    ).eval()
    assert custom(torch.randn(1, 3, 32, 32)).shape == (1, 3)
    assert len(custom.stages[0].blocks[0].mixer.s6.D) == 1


def test_nano_matches_spectral_nano():
    ours, spectral = (on_meta(name, num_classes=10) for name in ("vmamba_nano", "spectral_vmamba_nano"))
    assert abs(count(ours) / count(spectral) - 1) < 0.03
    assert [len(stage.blocks) for stage in ours.stages] == [len(stage.blocks) for stage in spectral.stages]
