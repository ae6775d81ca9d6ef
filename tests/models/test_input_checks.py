"""Unusual images: correct logits or a clear error, never NaN."""

import re

import pytest
import torch

from spectral_vmamba.models import invariant, timm
from spectral_vmamba.ops.turns import turn
from spectral_vmamba.testing import activate_scan
from tests.support.models import FRAMES, ONE_PER_FAMILY, build, shallow_options


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return activate_scan(timm.create_model("spectral_vmamba_nano", num_classes=5)).eval()


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (torch.zeros(3, 32, 32), r"add a batch axis with images\[None\]"),
        (torch.zeros(32, 32), "expected images"),
        (torch.zeros(2, 1, 32, 32), "repeat a gray image"),
        (torch.zeros(2, 2, 32, 32), "alpha"),
        (torch.zeros(2, 4, 32, 32), "drop an alpha channel"),
        (torch.zeros(2, 7, 32, 32), "in_chans=7"),
        (torch.zeros(2, 32, 32, 3), "move the channels first"),
        (torch.zeros(2, 3, 0, 32), "at least one patch"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.uint8), r"images.float\(\) / 255"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.int64), "floating point"),
    ],
)
def test_unusable_images_are_refused_with_advice(model, images, message):
    with pytest.raises(ValueError, match=message):
        model(images)


@pytest.mark.parametrize("name", ONE_PER_FAMILY)
def test_every_family_checks_its_images(name):
    model = build(name, **shallow_options(name))
    for size in ((3, 20), (20, 3), (1, 1)):
        message = re.escape(f"at least one patch, 4 × 4 pixels, got {(2, 3, *size)}; enlarge or pad")
        with pytest.raises(ValueError, match=message):
            model(torch.zeros(2, 3, *size))
    assert model(torch.zeros(2, 3, 4, 4)).shape == (2, 7)
    with pytest.raises(ValueError, match=r"expected images with 3 channels.*\(2, 1, 32, 32\); repeat a gray image"):
        model(torch.zeros(2, 1, 32, 32))
    with pytest.raises(ValueError, match=r"images\[None\]"):
        model(torch.zeros(3, 32, 32))
    gray = build(name, **shallow_options(name), in_chans=1)
    with pytest.raises(ValueError, match=r"expected images with 1 channels.*in_chans=3"):
        gray(torch.zeros(2, 3, 32, 32))


@pytest.mark.parametrize("in_chans", [0, -1])
@pytest.mark.parametrize("name", ONE_PER_FAMILY)
def test_every_family_needs_a_channel(name, in_chans):
    with pytest.raises(ValueError, match=f"in_chans ≥ 1, got {in_chans}"):
        build(name, in_chans=in_chans)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_invalid_pixels_are_refused_with_the_index_of_their_image(model, value):
    images = torch.randn(4, 3, 32, 32)
    images[2, 1, 5, 5] = value
    with pytest.raises(ValueError, match="image 2 of the batch has NaN or infinite pixels"):
        model(images)


def checkerboard(side, cell):
    index = torch.arange(side) // cell
    return ((index[:, None] + index) % 2).float().expand(1, 3, side, side)


UNUSUAL = {
    "constant": torch.full((1, 3, 32, 32), 0.3),
    "black": torch.zeros(1, 3, 32, 32),
    "checkerboard of pixels": checkerboard(32, 1),
    "checkerboard of patches": checkerboard(32, 4),
    "checkerboard of halves": checkerboard(32, 16),
    "left half black": torch.cat([torch.zeros(1, 3, 32, 16), torch.ones(1, 3, 32, 16)], 3),
    "stripes": (torch.arange(32) % 2).float().expand(1, 3, 32, 32),
    "huge values": 1e15 * torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0)),
    "tiny values": 1e-30 * torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0)),
    "one white pixel": torch.nn.functional.pad(torch.ones(1, 3, 1, 1), (3, 28, 11, 20)),
    "one patch": torch.randn(1, 3, 4, 4, generator=torch.Generator().manual_seed(0)),
    "two patches": torch.randn(1, 3, 4, 8, generator=torch.Generator().manual_seed(0)),
    "three patches": torch.randn(1, 3, 12, 4, generator=torch.Generator().manual_seed(0)),
    "identical patches": torch.randn(1, 3, 4, 4, generator=torch.Generator().manual_seed(0)).repeat(1, 1, 8, 8),
    "symmetric": sum(turn(torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0)), q) for q in range(4)),
}


@pytest.mark.parametrize("domain", ["square", "disk"])
@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_images_have_finite_and_invariant_logits(name, domain):
    """The same bits with a frame; without one, equal up to rounding."""
    images = UNUSUAL[name]
    for frame in FRAMES:
        torch.manual_seed(0)
        options = {"num_classes": 5, "domain": domain, "frame": frame}
        model = activate_scan(timm.create_model("spectral_vmamba_nano", **options).eval())
        with torch.no_grad():
            logits = model(images)
            assert logits.isfinite().all()
            for quarters in (1, 2, 3):
                difference = (model(turn(images, quarters)) - logits).abs().max()
                # Measured without the frame: at most 2.4e-5, on the checkerboard of halves.
                assert difference <= (2e-4 * logits.std() if frame == "none" else 0)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", ONE_PER_FAMILY)
def test_gray_images_have_a_frame(name, frame):
    """One channel, not square; a patch, which is one token."""
    model = activate_scan(build(name, **shallow_options(name), in_chans=1, frame=frame)).eval()
    for size in ((32, 32), (24, 32), (4, 4), (4, 8)):
        images = torch.rand(2, 1, *size, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            logits = model(images)
            assert logits.isfinite().all()
            if frame != "none":
                assert torch.equal(model(turn(images, 1)), logits)


@pytest.mark.parametrize("frame", ["quarter", "moment"])
def test_networks_of_timm_refuse_images_without_a_frame(frame):
    model = invariant("resnet10t", frame=frame, num_classes=2)
    images = torch.rand(3, 3, 32, 32)
    images[1, 0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match="image 1 of the batch has NaN or infinite pixels"):
        model(images)


@pytest.mark.parametrize("name", UNUSUAL)
def test_networks_of_timm_have_finite_and_invariant_logits(name):
    torch.manual_seed(0)
    model = invariant("resnet10t", frame="moment", turns=1, num_classes=2).eval()
    with torch.no_grad():
        logits = model(UNUSUAL[name])
        assert logits.isfinite().all() or name == "huge values"  # beyond float32 in any network
        for quarters in (1, 2, 3):
            assert torch.equal(model(turn(UNUSUAL[name], quarters)).nan_to_num(), logits.nan_to_num())
