"""Which Spectral VMamba configurations are possible."""

import pytest
import torch

from spectral_vmamba.models import SpectralConfig, create_model, timm
from spectral_vmamba.ops.turns import turn
from spectral_vmamba.testing import activate_scan


@pytest.mark.parametrize("options", [{"neighbors": 500}, {"eigenvectors": 9}], ids=str)
def test_more_neighbors_or_eigenvectors_than_tokens(options):
    model = timm.create_model("spectral_vmamba_nano", num_classes=5, **options).eval()
    with torch.no_grad():
        for side in (32, 8, 4):
            images = torch.randn(2, 3, side, side)
            logits, (traversal, *_) = model.forward_traversals(images)
            assert logits.isfinite().all()
            tokens = torch.arange((side // 4) ** 2)
            assert torch.equal(traversal.orders.sort(-1).values, tokens.expand(traversal.orders.shape))
            assert torch.equal(model(turn(images, 1)), logits)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"domain": "circle"}, "expected domain"),
        ({"traversal": "zigzag"}, "expected traversal"),
        ({"solver": "magic"}, "expected solver"),
        ({"eigenvectors": 0}, "eigenvectors ≥ 1"),
        ({"neighbors": 0}, "neighbors ≥ 1"),
        ({"turns": 3}, "expected turns"),
        ({"stem": "resnet18"}, "'conv' or 'timm:NAME'"),
        ({"stem": "timm:resnet_18"}, "timm has no model"),
        ({"stem": "timm:resnet18", "patch_size": 64}, "none of the patch size 64"),
        ({"share_directions": True, "traversal": "cross"}, "share_directions.*got 'cross'"),
        ({"share_directions": True, "traversal": ("h", "h_flip")}, "share_directions"),
    ],
    ids=str,
)
def test_impossible_architectures_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        timm.create_model("spectral_vmamba_nano", **options)


def test_unknown_keywords_are_refused():
    with pytest.raises(TypeError, match="neighbours"):
        timm.create_model("spectral_vmamba_nano", neighbours=3)


@pytest.mark.parametrize("name", ["spectral_vmamba_nano", "vmamba_nano", "msvmamba_pico"])
def test_every_hierarchy_needs_one_depth_per_width(name):
    for depths in ((1, 1), (1, 1, 1, 1)):
        with pytest.raises(ValueError, match="one depth per width"):
            timm.create_model(name, depths=depths)


@pytest.mark.parametrize(
    ("options", "invariant"),
    [
        ({}, True),
        ({"frame": "none"}, True),
        ({"frame": "none", "turns": 1}, False),
        ({"frame": "none", "traversal": "random"}, False),
        ({"frame": "none", "traversal": "cross"}, False),
        ({"frame": "none", "local_mixing": "depthwise"}, False),
        ({"turns": 1, "traversal": "cross"}, True),
    ],
    ids=str,
)
def test_quarter_turn_invariance_is_stated_correctly(options, invariant):
    """Measured in units of the logits' standard deviation: at most 2.5e-6, or at least 0.65."""
    assert SpectralConfig(**options).is_quarter_turn_invariant is invariant
    model = activate_scan(create_model("spectral_vmamba_nano", num_classes=5, **options)).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.xavier_normal_(module.weight)
    images = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        logits = model(images)
        difference = (model(turn(images, 1)) - logits).abs().max() / logits.std()
    assert difference < 2e-5 if invariant else difference > 0.1
