"""Every hierarchical network as encoder `tu-NAME` of segmentation_models_pytorch: it builds, runs and trains, or says
what to do."""

import re

import pytest
import torch

from spectral_vmamba.models import list_models
from spectral_vmamba.testing import activate_scan
from tests.support.models import is_isotropic, small_options

pytestmark = pytest.mark.full

DECODERS = ("Unet", "FPN", "UPerNet", "Segformer", "DeepLabV3Plus")
HIERARCHIES = [name for name in list_models() if not is_isotropic(name)]
every_pair = pytest.mark.parametrize("decoder", DECODERS)


def three_stages(name):
    return name.endswith("_pico") or (name.endswith("_nano") and name != "msvmamba_nano")


def segment(decoder, name, **options):
    smp = pytest.importorskip("segmentation_models_pytorch", reason="needs segmentation-models-pytorch")
    torch.manual_seed(0)
    keywords = {**small_options(name), "drop_path_rate": 0.0, **options}
    return getattr(smp, decoder)(f"tu-{name}", encoder_weights=None, classes=2, **keywords)


def assert_trains(model):
    activate_scan(model)
    masks = model(torch.randn(2, 3, 64, 64))
    assert masks.shape == (2, 2, 64, 64)
    (masks * torch.randn_like(masks)).sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
    blocks = [p for n, p in model.encoder.named_parameters() if ".s6." in n or ".in_proj." in n or "_scan." in n]
    assert blocks
    assert all(parameter.grad.any() for parameter in blocks)


@every_pair
@pytest.mark.parametrize("name", HIERARCHIES)
def test_trains_with_every_decoder(name, decoder):
    assert_trains(segment(decoder, name))


@every_pair
@pytest.mark.parametrize("name", list(filter(three_stages, HIERARCHIES)))
def test_three_stages_without_the_pyramid_need_a_smaller_depth(name, decoder):
    with pytest.raises(ValueError, match=re.escape(f"{name} has 3 feature maps")) as error:
        segment(decoder, name, pyramid=False)
    assert "pyramid=True" in str(error.value)
    assert "encoder_depth=4" in str(error.value)


@pytest.mark.parametrize("decoder", ["UPerNet", "Segformer", "DeepLabV3Plus"])
def test_three_stages_with_a_smaller_depth(decoder):
    """smp's FPN takes four maps and has no smaller depth."""
    assert_trains(segment(decoder, "spectral_vmamba_nano", encoder_depth=4))


def test_unet_with_a_smaller_depth():
    assert_trains(segment("Unet", "spectral_vmamba_nano", encoder_depth=4, decoder_channels=(64, 32, 16, 8)))


def test_strides_finer_than_patches_are_refused():
    with pytest.raises(ValueError, match=r"output_stride of at least the patch size, 16, got 8; .* vmamba_tiny"):
        segment("DeepLabV3Plus", "spectral_vmamba_lite", encoder_output_stride=8)


def test_masks_turn_with_the_image():
    """All of a Segformer's layers are pointwise or bilinear: equivariant maps give equivariant masks."""
    model = segment("Segformer", "spectral_vmamba_nano").double().eval()
    images = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    with torch.no_grad():
        masks, turned = model(images), model(torch.rot90(images, 1, (-2, -1)))
    torch.testing.assert_close(torch.rot90(masks, 1, (-2, -1)), turned, rtol=0, atol=1e-12)
