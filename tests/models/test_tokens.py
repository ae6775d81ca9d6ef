"""Networks take tokens in place of images."""

import pytest
import torch

from spectral_vmamba.models.tokens import Tokens
from spectral_vmamba.testing import activate_scan
from tests.support.models import FRAMES, build, example_images

HIERARCHIES = ["spectral_vmamba_nano", "vmamba_nano", "msvmamba_pico"]


@pytest.mark.parametrize("name", HIERARCHIES)
def test_tokens_of_images_give_the_same_outputs(name):
    model, images = activate_scan(build(name)).eval(), example_images(name)
    with torch.no_grad():
        tokens = model.tokenizer(images)
        assert isinstance(tokens, Tokens)
        assert torch.equal(model(tokens), model(images))
        assert torch.equal(model.forward_features(tokens), model.forward_features(images))
        logits, traversals = model.forward_traversals(tokens)
        assert torch.equal(logits, model(images))
        assert len(traversals) == len(model.stages)
        maps = model.forward_intermediates(tokens, intermediates_only=True)
        assert torch.equal(maps[-1], model.forward_intermediates(images, intermediates_only=True)[-1])


@pytest.mark.parametrize("frame", FRAMES)
def test_tokens_move_with_their_traversal_and_pose(frame):
    model = build("spectral_vmamba_nano", frame=frame).eval()
    with torch.no_grad():
        tokens = model.tokenizer(example_images("spectral_vmamba_nano"))
    moved = tokens.to("meta")
    parts = [moved.x, moved.traversal.ranks, moved.traversal.content, moved.traversal.orders]
    assert (moved.pose is None) == (frame == "none")
    if moved.pose is not None:
        assert moved.pose.is_exact == (frame == "quarter")
        parts += [moved.pose.own] if moved.pose.rotation is None else [moved.pose.own, moved.pose.rotation]
    assert all(part.is_meta for part in parts)
    assert moved.traversal.grid == tokens.traversal.grid
    assert type(moved.traversal) is type(tokens.traversal)
    assert tokens.x.device.type == "cpu"
