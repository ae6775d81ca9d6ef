"""LocalVim against the published facts; what it shares with Vim is in test_vim.py."""

import re

import pytest
import torch
import torch.nn.functional as F

from spectral_vmamba.layers.directional import LocalVimMixer
from spectral_vmamba.layers.rope import rotate_by_place
from spectral_vmamba.models import timm
from spectral_vmamba.models.local_vim import SEARCHED, LocalVimConfig
from tests.models.test_vim import (
    SMALL,
    assert_same_with_gradients,
    count,
    images,
    on_meta,
    plain_norm,
    plain_reading,
    published_form,
    shaken,
    small,
)

TOTALS = {
    ("local_vim_tiny", 1000): 7_994_152,
    ("local_vim_tiny", 100): 7_820_452,
    ("local_vim_small", 1000): 27_783_784,
    ("local_vim_small", 100): 27_437_284,
}
BLOCKS = {"local_vim_tiny": 380_784, "local_vim_small": 1_351_392}


@pytest.mark.parametrize(("name", "classes"), TOTALS)
def test_parameters_are_the_published_ones(name, classes):
    assert count(on_meta(name, num_classes=classes)) == TOTALS[name, classes]


@pytest.mark.parametrize("name", BLOCKS)
def test_parameters_of_the_parts(name):
    model = on_meta(name)
    assert [count(block) for block in model.blocks] == [BLOCKS[name]] * 20
    assert count(model.patch_embed) == 769 * model.config.width
    assert model.pos_embed.shape == (1, 196, model.config.width)
    assert model.cls_token is None


def test_nano_matches_spectral_nano():
    model = timm.create_model("local_vim_nano", num_classes=10)
    assert count(model) == 1_088_578
    assert abs(count(model) / count(on_meta("spectral_vmamba_nano", num_classes=10)) - 1) < 0.05
    assert len(model.blocks) == 6
    assert model(images(1, 32, 32)).shape == (1, 10)


def plain_order(name, height, width):
    """The cells in the order of a direction, None where a window reaches past the grid."""
    kind = name.removesuffix("_flip")
    if kind == "h":
        order = [(r, c) for r in range(height) for c in range(width)]
    elif kind == "v":
        order = [(r, c) for c in range(width) for r in range(height)]
    else:
        k = int(kind[1:])
        corners = [(top, left) for top in range(0, height, k) for left in range(0, width, k)]
        order = [(top + r, left + c) for top, left in corners for r in range(k) for c in range(k)]
    cells = [r * width + c if r < height and c < width else None for r, c in order]
    return cells[::-1] if name.endswith("_flip") else cells


def plain_mixer(mixer, x, height, width):
    """x (tokens, channels), row by row."""
    xz = x @ mixer.in_proj.weight.T
    total = 0
    for name, direction in zip(mixer.names, mixer.directions, strict=True):
        order = plain_order(name, height, width)
        ordered = torch.stack([torch.zeros_like(xz[0]) if cell is None else xz[cell] for cell in order])
        out = plain_reading(direction, *ordered.chunk(2, dim=-1))
        y = torch.stack([out[order.index(cell)] for cell in range(height * width)])
        norm, reduce, select = mixer.gate.norm, mixer.gate.reduce, mixer.gate.select
        mean = F.layer_norm(y, y.shape[-1:], norm.weight, norm.bias).mean(0)
        summary = F.gelu(reduce.weight @ mean + reduce.bias)
        total = total + y * torch.sigmoid(select.weight @ summary + select.bias)
    return total @ mixer.out_proj.weight.T


def plain_turn(x, height, width):
    """Pairs of channels as complex numbers; x (…, tokens, channels), row by row."""
    quarter = x.shape[-1] // 4
    factors = torch.empty(height * width, 2 * quarter, dtype=torch.complex128)
    for cell in range(height * width):
        row, column = cell // width * 14 / height, cell % width * 14 / width
        for i in range(quarter):
            frequency = 10000 ** (-2 * i / (2 * quarter))
            factors[cell, i] = torch.exp(1j * torch.tensor(row * frequency, dtype=torch.float64))
            factors[cell, quarter + i] = torch.exp(1j * torch.tensor(column * frequency, dtype=torch.float64))
    pairs = torch.complex(x[..., 0::2].contiguous(), x[..., 1::2].contiguous()) * factors
    return torch.view_as_real(pairs).flatten(-2)


@pytest.mark.parametrize("directions", [("h", "v_flip", "w2", "w7_flip"), ("h_flip", "v", "w2_flip", "w7")])
@pytest.mark.parametrize(("size", "state_size"), [((3, 5), 3), ((1, 4), 1)])
def test_a_block_is_its_equations_with_gradients(size, state_size, directions):
    model = small("local_vim_tiny", directions=(directions,) * 3, state_size=state_size).double().eval()
    block = model.blocks[1]
    assert any(None in plain_order(name, *size) for name in directions), "some windows reach past the grid"
    with torch.no_grad():
        for parameter in (block.norm.weight, *block.mixer.gate.parameters()):
            parameter.add_(torch.randn_like(parameter) / 4)
    x = torch.randn(1, size[0] * size[1], 16, dtype=torch.float64, requires_grad=True)
    turned = plain_turn(x[0], *size)
    expected = turned + plain_mixer(block.mixer, plain_norm(block.norm, turned), *size)
    assert_same_with_gradients(block(x, size)[0], expected, [x, *block.parameters()])


def test_is_the_published_carried_residual_turned_in_every_block():
    model = small("local_vim_tiny", drop_path_rate=0.5).double().train()
    x, grid = model.embed(images(6).double())
    torch.manual_seed(3)
    found = model.forward_features(images(6).double())
    torch.manual_seed(3)
    torch.testing.assert_close(found, published_form(model, x, 0.5, lambda y: plain_turn(y, *grid)))


def test_rotary_positions():
    x = torch.randn(1, 196, 8, dtype=torch.float64)
    turned = rotate_by_place(x, 14, 14)
    torch.testing.assert_close(turned, plain_turn(x, 14, 14))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(turned[:, 0], x[:, 0])
    angle = torch.tensor(3.0, dtype=torch.float64)  # row 3, its first pair
    torch.testing.assert_close(turned[0, 3 * 14, 0], x[0, 42, 0] * angle.cos() - x[0, 42, 1] * angle.sin())
    half = torch.randn(1, 49, 8, dtype=torch.float64)
    spread = torch.zeros(1, 14, 14, 8, dtype=torch.float64)
    spread[:, ::2, ::2] = half.unflatten(1, (7, 7))
    fine = rotate_by_place(spread.flatten(1, 2), 14, 14).unflatten(1, (14, 14))[:, ::2, ::2].flatten(1, 2)
    torch.testing.assert_close(rotate_by_place(half, 7, 7), fine, msg="a coarser grid spans the same positions")


def test_pooled_is_the_mean_of_the_normalized_tokens():
    model = small("local_vim_tiny").eval()
    torch.testing.assert_close(model(images()), model.head(model.forward_features(images()).mean(1)))
    with pytest.raises(ValueError, match="global_pool 'avg', 'max', or '' for none, got 'token'"):
        model.reset_classifier(3, "token")


def test_directions_do_not_share_tensors():
    mixer = LocalVimMixer(16, ("h", "v", "w2", "w7"), state_size=4)
    tables = [direction.s6.A_log for direction in mixer.directions]
    assert len({table.data_ptr() for table in tables}) == 4
    assert len({table.untyped_storage().data_ptr() for table in tables}) == 4
    before = [table.detach().clone() for table in tables]
    optimizer = torch.optim.SGD([tables[1]], lr=1.0)
    mixer(torch.randn(2, 12, 16), (3, 4)).square().sum().backward()
    optimizer.step()
    assert [torch.equal(a, b) for a, b in zip(before, tables, strict=True)] == [True, False, True, True]


def test_the_searched_directions_are_the_published_ones():
    """Capitals, and windows with a minus, are read backwards."""
    published = """
        hV7-7 H-27-7 hHv7 hHvV hHvV hHvV HvV7 HvV-2 hHvV hHvV hvV2 hvV-2 hHV7 HvV2 hHvV hv2-2 vV27 hHv2 hH-27 vV2-2
    """
    names = {"h": "h", "H": "h_flip", "v": "v", "V": "v_flip"}
    names |= {"2": "w2", "-2": "w2_flip", "7": "w7", "-7": "w7_flip"}
    layers = [tuple(names[mark] for mark in re.findall(r"-?\d|\w", layer)) for layer in published.split()]
    assert tuple(layers) == SEARCHED
    assert len(SEARCHED) == 20
    assert all(len(set(layer)) == 4 for layer in SEARCHED)


def test_directions_of_the_named_models():
    assert timm.create_model("local_vim_tiny", width=8).blocks[16].mixer.names == ("v", "v_flip", "w2", "w7")
    unsearched = ("h", "h_flip", "w2", "w2_flip")
    small_ones = timm.create_model("local_vim_small", width=8)
    assert {block.mixer.names for block in small_ones.blocks} == {unsearched}
    assert LocalVimConfig(depth=3).layers == SEARCHED[:3]
    assert LocalVimConfig(depth=30, directions="unsearched").layers == (unsearched,) * 30
    for options, message in (
        ({"depth": 30}, "for 30 layers, got 20; 'unsearched' fits every depth"),
        ({"depth": 2, "directions": (("h",),)}, "for 2 layers, got 1"),
        ({"directions": "cross"}, "got 'cross'"),
        ({"depth": 1, "directions": (("h", "x"),)}, "unknown scan direction 'x'"),
        ({"width": 18}, "multiple of 4"),
    ):
        with pytest.raises(ValueError, match=message):
            LocalVimConfig(**options)


def released(model) -> dict[str, torch.Tensor]:
    """The model's weights as the released checkpoints name and shape them, with the rotary tables."""
    state = {}
    for name, tensor in model.state_dict().items():
        tensor = tensor[0] if ".s6." in name else tensor
        name = re.sub(r"^blocks\.", "layers.", name).replace("patch_embed.", "patch_embed.proj.")
        name = re.sub(r"^norm\.", "norm_f.", name)
        name = re.sub(r"directions\.(\d)\.s6\.(x_proj|dt_proj)$", r"\2_\1.weight", name)
        name = re.sub(r"directions\.(\d)\.s6\.dt_bias$", r"dt_proj_\1.bias", name)
        name = re.sub(r"directions\.(\d)\.s6\.(A_log|D)$", r"\2_\1", name)
        name = re.sub(r"directions\.(\d)\.conv\.", r"conv1d_\1.", name)
        name = name.replace("gate.reduce", "attn.global_reduce").replace("gate.select", "attn.channel_select")
        state[name.replace("gate.norm", "attn.norm")] = tensor.clone()
    tables = {f"rope.freqs_{kind}": torch.randn(15, model.config.width) for kind in ("cos", "sin")}
    return {**state, **tables}


def test_released_checkpoints_load(tmp_path):
    model = shaken(small("local_vim_tiny")).eval()
    state = released(model)
    for name in ("A_log_3", "D_0", "conv1d_1.bias", "x_proj_2.weight", "dt_proj_0.bias", "attn.global_reduce.weight"):
        assert f"layers.0.mixer.{name}" in state
    assert state["layers.2.mixer.A_log_1"].shape == (32, 3)
    other = timm.create_model("local_vim_tiny", num_classes=5, **SMALL).eval()
    other.load_state_dict(state)
    assert torch.equal(other(images()), model(images()))
    torch.save({"state_dict": state}, tmp_path / "released.pth")
    path = str(tmp_path / "released.pth")
    by_path = timm.create_model("local_vim_tiny", num_classes=5, checkpoint_path=path, **SMALL).eval()
    assert torch.equal(by_path(images()), model(images()))
    with pytest.raises(RuntimeError, match=r"(?s)Unexpected.*cls_token"):
        other.load_state_dict({**state, "cls_token": torch.zeros(1, 1, 16)})


def test_images_of_other_sizes():
    model = small("local_vim_tiny").eval()
    for height, width in ((4, 4), (13, 18), (24, 8), (36, 32)):
        assert model(images(2, height, width)).shape == (2, 5)
    odd = images(2, 13, 18)
    assert torch.equal(model(odd), model(F.pad(odd, (0, 2, 0, 3))))


def test_padding_takes_part_in_the_scan():
    """On 1 × 3 cells, w2 reads c0 c1 · · c2 · · ·; what stands between changes c2."""
    mixer = shaken(LocalVimMixer(8, ("w2",), state_size=2).double())
    x = torch.randn(1, 3, 8, dtype=torch.float64)
    padded = mixer(x, (1, 3))
    mixer.names = ("h",)
    assert (padded - mixer(x, (1, 3))).abs().max() > 1e-6
