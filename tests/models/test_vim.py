"""Vim against its published equations."""

import copy

import pytest
import torch

from spectral_vmamba.models.vim import Vim, VimConfig
from tests.support.plain_scan import assert_equal_with_gradients
from tests.support.plain_vim import plain_norm, plain_vim_mixer, published_blocks
from tests.support.small_vim import GRID, build_small, random_images
from tests.support.tolerances import assert_relatively_close


@pytest.mark.parametrize("tokens", [2, 16])
@pytest.mark.parametrize("state_size", [1, 3])
def test_block_matches_its_equations(tokens, state_size):
    block = build_small("vim_tiny", state_size=state_size).double().eval().blocks[1]
    torch.nn.init.uniform_(block.norm.weight, 0.5, 1.5)
    x = torch.randn(1, tokens, 16, dtype=torch.float64, requires_grad=True)
    expected = x[0] + plain_vim_mixer(block.mixer, plain_norm(block.norm, x[0]))
    assert_equal_with_gradients(block(x, GRID)[0], expected, {"x": x, **dict(block.named_parameters())})


def test_matches_the_published_form_with_its_shifted_drop_path():
    model = build_small("vim_tiny", drop_path_rate=0.5).double().train()
    assert [getattr(block.drop_path, "drop_prob", 0.0) for block in model.blocks] == [0.0, 0.25, 0.5]
    images = random_images(6).double()
    x, grid, *_ = model.tokenize(images)
    torch.manual_seed(3)
    actual = model.forward_features(images)
    torch.manual_seed(3)
    assert_relatively_close(actual, published_blocks(model, x, grid, 0.5), 5e-15)  # measured: 6e-16


def test_reversing_the_sequence_equals_swapping_the_directions():
    model = build_small("vim_tiny", img_size=(8, 20)).double().eval()
    with torch.no_grad():
        model.pos_embed.copy_(model.pos_embed + model.pos_embed.flip(1))
    reverse = copy.deepcopy(model)
    x = random_images(2, 8, 20).double()
    with torch.no_grad():
        reverse.patch_embed.weight.copy_(model.patch_embed.weight.flip(2, 3))  # patches of the turned image
    assert (reverse(x.flip(2, 3)) - model(x)).abs().max() > 1e-3, "the directions have different weights"
    for block in reverse.blocks:
        block.mixer.directions = torch.nn.ModuleList(reversed(block.mixer.directions))
    assert_relatively_close(reverse(x.flip(2, 3)), model(x), 5e-15)  # measured: 9e-16


def test_class_token_is_in_the_middle():
    model = build_small("vim_tiny").eval()
    images = random_images()
    x, grid, *_ = model.tokenize(images)
    assert grid == GRID
    assert x.shape == (2, 16, 16)
    assert torch.equal(x[:, 7], (model.cls_token + model.pos_embed[:, 7]).expand(2, 1, 16)[:, 0])
    patches = model.patch_embed(images).flatten(2).mT
    assert torch.equal(x[:, :7], patches[:, :7] + model.pos_embed[:, :7])
    assert torch.equal(x[:, 8:], patches[:, 7:] + model.pos_embed[:, 8:])
    tokens = torch.randn(2, 197, 16)
    assert torch.equal(model.forward_head(tokens, pre_logits=True), tokens[:, 98])
    model.reset_classifier(0, "avg")
    torch.testing.assert_close(model.forward_head(tokens), (tokens.sum(1) - tokens[:, 98]) / 196)


def test_config_is_a_value():
    assert VimConfig(width=32) == VimConfig(width=32)
    assert Vim(num_classes=2, width=8, depth=1, img_size=32).config.grid == (2, 2)
