"""Weights that make a wrong visiting order show."""

import torch

from spectral_vmamba.models import timm
from spectral_vmamba.ops.traversal import Traversal
from spectral_vmamba.testing import activate_scan


def test_activate_scan_makes_order_matter(crops):
    """Reversing every order changes the answers of an active network far more than those of the initial one."""
    images = crops(8, 32)

    def effect(active):
        torch.manual_seed(0)
        model = timm.create_model("spectral_vmamba_nano", num_classes=50).eval()
        if active:
            activate_scan(model)
        with torch.no_grad():
            logits = model(images)
            tokenizer = model.tokenizer
            traverse = tokenizer.traverse
            tokenizer.traverse = lambda tokens, grid: reverse_tokens(traverse(tokens, grid))
            return float((model(images) - logits).abs().max() / logits.std())

    assert effect(active=True) > 10 * effect(active=False)


def reverse_tokens(traversal: Traversal) -> Traversal:
    return Traversal.from_ranks(traversal.grid, traversal.ranks.flip(-1), traversal.content)
