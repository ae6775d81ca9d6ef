"""LocalVim against its published equations and directions."""

import re

import pytest
import torch

from spectral_vmamba.layers.directional import LocalVimMixer
from spectral_vmamba.layers.rope import apply_rotary_embedding
from spectral_vmamba.models import timm
from spectral_vmamba.models.local_vim import SEARCHED_DIRECTIONS, LocalVimConfig
from tests.support.models import perturb
from tests.support.plain_scan import assert_equal_with_gradients
from tests.support.plain_vim import plain_local_vim_mixer, plain_norm, plain_order, plain_rotary, published_blocks
from tests.support.small_vim import build_small, random_images
from tests.support.tolerances import assert_relatively_close


@pytest.mark.parametrize("directions", [("h", "v_flip", "w2", "w7_flip"), ("h_flip", "v", "w2_flip", "w7")])
@pytest.mark.parametrize(("size", "state_size"), [((3, 5), 3), ((1, 4), 1)])
def test_block_matches_its_equations(size, state_size, directions):
    model = build_small("local_vim_tiny", directions=(directions,) * 3, state_size=state_size).double().eval()
    block = model.blocks[1]
    assert any(None in plain_order(name, *size) for name in directions), "some windows extend past the grid"
    with torch.no_grad():
        for parameter in (block.norm.weight, *block.mixer.gate.parameters()):
            parameter.add_(torch.randn_like(parameter) / 4)
    x = torch.randn(1, size[0] * size[1], 16, dtype=torch.float64, requires_grad=True)
    rotated = plain_rotary(x[0], *size)
    expected = rotated + plain_local_vim_mixer(block.mixer, plain_norm(block.norm, rotated), *size)
    assert_equal_with_gradients(block(x, size)[0], expected, {"x": x, **dict(block.named_parameters())})


def test_matches_the_published_form_with_its_shifted_drop_path():
    model = build_small("local_vim_tiny", drop_path_rate=0.5).double().train()
    images = random_images(6).double()
    x, grid, *_ = model.tokenize(images)
    torch.manual_seed(3)
    actual = model.forward_features(images)
    torch.manual_seed(3)
    expected = published_blocks(model, x, grid, 0.5, rotate=lambda y: plain_rotary(y, *grid))
    assert_relatively_close(actual, expected, 2e-14)  # measured: 4e-15


def test_rotary_positions():
    x = torch.randn(1, 196, 8, dtype=torch.float64)
    rotated = apply_rotary_embedding(x, 14, 14)
    # Measured in these three: at most 2e-16.
    assert_relatively_close(rotated, plain_rotary(x, 14, 14), 1e-15)
    assert_relatively_close(rotated.norm(dim=-1), x.norm(dim=-1), 1e-15)
    assert torch.equal(rotated[:, 0], x[:, 0])
    angle = torch.tensor(3.0, dtype=torch.float64)  # row 3, its first pair
    expected = x[0, 42, 0] * angle.cos() - x[0, 42, 1] * angle.sin()
    assert_relatively_close(rotated[0, 3 * 14, 0], expected, 1e-15)


def test_rotary_positions_of_a_coarser_grid_span_the_same_range():
    coarse = torch.randn(1, 49, 8, dtype=torch.float64)
    spread = torch.zeros(1, 14, 14, 8, dtype=torch.float64)
    spread[:, ::2, ::2] = coarse.unflatten(1, (7, 7))
    fine = apply_rotary_embedding(spread.flatten(1, 2), 14, 14).unflatten(1, (14, 14))[:, ::2, ::2].flatten(1, 2)
    assert torch.equal(apply_rotary_embedding(coarse, 7, 7), fine)


def test_logits_come_from_the_mean_of_the_normalized_tokens():
    model = build_small("local_vim_tiny").eval()
    assert torch.equal(model(random_images()), model.head(model.forward_features(random_images()).mean(1)))
    with pytest.raises(ValueError, match="global_pool 'avg', 'max', or '' for no pooling, got 'token'"):
        model.reset_classifier(3, "token")


def test_directions_do_not_share_tensors():
    mixer = LocalVimMixer(16, ("h", "v", "w2", "w7"), state_size=4)
    tables = [direction.s6.A_log for direction in mixer.directions]
    assert len({table.untyped_storage().data_ptr() for table in tables}) == 4
    before = [table.detach().clone() for table in tables]
    optimizer = torch.optim.SGD([tables[1]], lr=1.0)
    mixer(torch.randn(2, 12, 16), (3, 4)).square().sum().backward()
    optimizer.step()
    assert [torch.equal(a, b) for a, b in zip(before, tables, strict=True)] == [True, False, True, True]


def test_searched_directions_are_the_published_ones():
    """In this notation, capitals and negative windows are scanned backward."""
    published = """
        hV7-7 H-27-7 hHv7 hHvV hHvV hHvV HvV7 HvV-2 hHvV hHvV hvV2 hvV-2 hHV7 HvV2 hHvV hv2-2 vV27 hHv2 hH-27 vV2-2
    """
    names = {"h": "h", "H": "h_flip", "v": "v", "V": "v_flip"}
    names |= {"2": "w2", "-2": "w2_flip", "7": "w7", "-7": "w7_flip"}
    layers = [tuple(names[mark] for mark in re.findall(r"-?\d|\w", layer)) for layer in published.split()]
    assert tuple(layers) == SEARCHED_DIRECTIONS
    assert len(SEARCHED_DIRECTIONS) == 20
    assert all(len(set(layer)) == 4 for layer in SEARCHED_DIRECTIONS)


def test_directions_of_the_registered_models():
    assert timm.create_model("local_vim_tiny", width=8).blocks[16].mixer.names == ("v", "v_flip", "w2", "w7")
    unsearched = ("h", "h_flip", "w2", "w2_flip")
    blocks = timm.create_model("local_vim_small", width=8).blocks
    assert {block.mixer.names for block in blocks} == {unsearched}
    assert LocalVimConfig(depth=3).layers == SEARCHED_DIRECTIONS[:3]
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


def test_padding_is_scanned():
    """On 1 × 3 cells, w2 visits c0 c1 · · c2 · · ·; the two padding tokens in between change c2."""
    mixer = perturb(LocalVimMixer(8, ("w2",), state_size=2).double(), 0.1)
    x = torch.randn(1, 3, 8, dtype=torch.float64)
    padded = mixer(x, (1, 3))
    mixer.names = ("h",)
    assert (padded - mixer(x, (1, 3))).abs().max() > 1e-6
