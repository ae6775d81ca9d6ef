"""Grad-CAM libraries on `stage_maps`, the modules that see the feature maps of the stages."""

import pytest
import torch

from spectral_vmamba.ops.turns import turn
from spectral_vmamba.testing import activate_scan
from tests.support.models import build

pytestmark = pytest.mark.full
NAMES = ["spectral_vmamba_nano", "spectral_vmamba_lite", "vmamba_nano", "msvmamba_pico"]
HEATMAPS = {0: (12, 16), 1: (6, 8), 2: (3, 4)}  # patches of 4 pixels at 48 × 64; 16 pixels at 192 × 256


def images(name):
    scale = 4 if name.endswith("lite") else 1
    return torch.randn(2, 3, 48 * scale, 64 * scale, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", NAMES)
def test_captum(name):
    attr = pytest.importorskip("captum.attr", reason="needs captum")
    model = activate_scan(build(name, frame="quarter")).eval()
    x = images(name)
    for stage, size in HEATMAPS.items():
        cam = attr.LayerGradCam(model, model.stage_maps[stage])
        heat = cam.attribute(x, target=1)
        assert heat.shape == (2, 1, *size)
        assert heat.any()
        # The gradients are averaged over the cells in another order.
        difference = turn(heat, 1) - cam.attribute(turn(x, 1), target=1)
        assert difference.abs().max() <= 1e-5 * heat.std()
    large = attr.LayerAttribution.interpolate(heat, x.shape[-2:])
    assert large.shape == (2, 1, *x.shape[-2:])


@pytest.mark.parametrize("name", NAMES)
def test_torchcam(name):
    methods = pytest.importorskip("torchcam.methods", reason="needs torchcam")
    model = build(name).eval()
    with methods.GradCAM(model, target_layer="stage_maps.1") as cam:
        logits = model(images(name))
        (heat,) = cam([1, 1], logits)
    assert heat.shape == (2, *HEATMAPS[1])
    assert heat.isfinite().all()
