"""Segmentation networks: shapes, and masks that turn with the image."""

import pytest
import torch

import spectral_vmamba
from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.photographs import photograph_crops
from spectral_vmamba.models.decoder_config import DECODERS
from spectral_vmamba.ops.turns import inscribed_disk, rotate, turn
from spectral_vmamba.segmentation.placement import place
from tests.support.models import small_options

pytest.importorskip("segmentation_models_pytorch", reason="needs the extra `segment`")

CLASSES = 3


@pytest.fixture(scope="module")
def photographs():
    return normalize(photograph_crops(2, 96), (0.5,) * 3, (0.25,) * 3)


def build(backbone="vmamba_nano", decoder="fpn", **options):
    torch.manual_seed(0)
    small = {} if backbone == "resnet18" else small_options(backbone)
    return spectral_vmamba.create_segmenter(backbone, decoder, CLASSES, backbone_options=small, **options).eval()


def assert_turns_with_the_image(model, images):
    with torch.inference_mode():
        masks = model(images)
        assert masks.shape == (len(images), CLASSES, *images.shape[-2:])
        assert masks.isfinite().all()
        for quarters in range(1, 4):
            assert torch.equal(model(turn(images, quarters)), turn(masks, quarters))


@pytest.mark.parametrize("frame", ["quarter", "moment"])
@pytest.mark.parametrize("backbone", ["spectral_vmamba_nano", "vmamba_nano", "resnet18"])
def test_quarter_turns_give_the_same_bits(backbone, frame, photographs):
    model = build(backbone, frame=frame)
    assert_turns_with_the_image(model, photographs)
    assert_turns_with_the_image(model, photographs[..., 10:71, :])  # not square, not a multiple of the stride


def symmetric_images():
    """Constant images, and images whose inscribed disk, but not they themselves, equal their own turns."""
    constant, wide = torch.full((1, 3, 64, 64), 0.3), torch.full((1, 3, 64, 96), 0.3)
    corner, side = constant.clone(), wide.clone()
    corner[..., :6, :6] = 1.0
    side[..., 20:30, :8] = 1.0
    half = constant + torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    half = half + turn(half, 2)
    return {"constant": constant, "wide": wide, "corner": corner, "side": side, "half turn": half}


@pytest.mark.parametrize("frame", ["quarter", "moment"])
@pytest.mark.parametrize("name", symmetric_images())
def test_masks_of_symmetric_images_turn_with_them(name, frame):
    assert_turns_with_the_image(build("resnet18", frame=frame), symmetric_images()[name])


def test_masks_of_symmetric_images_turn_with_them_in_the_frame_upright():
    model = build("spectral_vmamba_lite", frame="upright")
    torch.nn.init.normal_(model.tokenizer.upright.weight)
    for name in ("corner", "side"):
        assert_turns_with_the_image(model, symmetric_images()[name])


def test_small_images_with_a_decoder_for_large_ones():
    model = build("resnet18", "pan")
    assert_turns_with_the_image(model, torch.rand(1, 3, 20, 50))


@pytest.mark.full
@pytest.mark.parametrize("decoder", DECODERS)
def test_quarter_turns_give_the_same_bits_with_every_decoder(decoder):
    images = normalize(photograph_crops(2, 128), (0.5,) * 3, (0.25,) * 3)  # the decoder pan takes no smaller ones
    assert_turns_with_the_image(build("resnet18", decoder), images)


def test_without_a_frame_the_masks_differ(photographs):
    model = build("resnet18", equivariant=False)
    with torch.inference_mode():
        assert not torch.equal(model(turn(photographs, 1)), turn(model(photographs), 1))


def test_the_mean_over_four_turns_is_equivariant_without_a_frame(photographs):
    model = build("resnet18", equivariant=False, turns=4).double()
    images = photographs.double()
    with torch.inference_mode():
        turned, expected = model(turn(images, 1)), turn(model(images), 1)
    torch.testing.assert_close(turned, expected, rtol=0, atol=1e-12)


def test_masks_do_not_depend_on_the_rest_of_the_batch(photographs):
    model = build(frame="moment").double()  # float32 convolutions round differently for other batch sizes
    images = photographs.double()
    with torch.inference_mode():
        together = model(images)
        alone = torch.cat([model(image) for image in images.split(1)])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [(64, 64), (50, 80)], ids=str)
def test_a_rotated_image_keeps_all_of_its_pixels(size, photographs):
    """In the frame and back, smooth images are nearly the same, corners included."""
    images = torch.nn.functional.interpolate(photographs, (6, 6), mode="area")
    images = torch.nn.functional.interpolate(images, size, mode="bicubic", align_corners=True)
    placed, placement = place(images, "moment")
    back = placement.undo(placed)
    assert back.shape == images.shape
    inside = (back - images)[..., 2:-2, 2:-2].abs().max()
    assert inside < 0.1 * (images.max() - images.min())
    ones, placement = place(torch.ones_like(images) + images * 0, "moment")
    assert ones.shape[-1] >= max(size)


def test_masks_of_turned_images_are_similar_in_the_frame_moment(photographs):
    model = build("resnet18", frame="moment")
    disk = inscribed_disk(96, 96, torch.device("cpu"))
    images = photographs * disk
    with torch.inference_mode():
        masks, turned = model(images), model(rotate(images, 30.0) * disk)
        plain = build("resnet18", equivariant=False)
        plain_masks, plain_turned = plain(images), plain(rotate(images, 30.0) * disk)
    error = (rotate(masks, 30.0) - turned)[..., disk].square().mean()
    plain_error = (rotate(plain_masks, 30.0) - plain_turned)[..., disk].square().mean()
    assert error < 0.2 * plain_error


@pytest.mark.parametrize("backbone", ["spectral_vmamba_lite", "spectral_vmamba_nano", "vmamba_nano"])
def test_masks_see_the_corners_of_the_image(backbone, photographs):
    """A classifier may look at the inscribed disk alone; a mask covers the whole image."""
    model = build(backbone, equivariant=False)
    changed = photographs.clone()
    changed[..., :8, :8] = -changed[..., :8, :8]
    with torch.inference_mode():
        difference = (model(changed) - model(photographs)).abs()[..., :8, :8].amax(1)
    assert (difference > 0).all()


def test_options_that_would_have_no_effect_are_refused():
    with pytest.raises(ValueError, match="frame of the whole network"):
        spectral_vmamba.create_segmenter("vmamba_nano", "fpn", backbone_options={"frame": "moment"})
    with pytest.raises(ValueError, match="no pretrained weights of vmamba_nano"):
        spectral_vmamba.create_segmenter("vmamba_nano", "fpn", pretrained=True)


def test_gradients_reach_every_parameter(photographs):
    model = build(frame="moment").train()
    scores = model(photographs)
    (scores * torch.randn_like(scores)).sum().backward()
    missing = [name for name, part in model.named_parameters() if part.requires_grad and part.grad is None]
    assert missing == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder": "unnet"}, "did you mean unet"),
        ({"frame": "none"}, "needs a frame"),
        ({"turns": 3}, "1 or 4 turns"),
        ({"decoder_options": {"encoder_weights": "x"}}, "decoder options such as"),
        ({"decoder_options": {"decoder_depth": 3}}, "does not take all of the options decoder_depth"),
        ({"frame": "upright"}, "frozen pretrained stem"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)


def test_networks_without_maps_for_a_decoder_are_explained():
    with pytest.raises(ValueError, match="vit_tiny_patch16_224 has no feature maps of strides 4, 8, 16 and 32"):
        spectral_vmamba.create_segmenter("vit_tiny_patch16_224", "unet", CLASSES)


def test_missing_weights_of_an_encoder_are_explained():
    with pytest.raises(FileNotFoundError, match="no pretrained weights of resnet10t are installed or cached"):
        spectral_vmamba.create_segmenter("resnet10t", "unet", CLASSES, pretrained=True)
