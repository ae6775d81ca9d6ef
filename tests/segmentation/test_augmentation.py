"""Random views of images and masks."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from spectral_vmamba.data.seeding import reseed
from spectral_vmamba.segmentation.augmentation import MaskAugmentation
from tests.support.image_folders import gray_image
from tests.support.masked_folders import random_image, random_mask

COLORS_UNCHANGED = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}
PLAIN = {"scale": (1.0, 1.0), "hflip": 0.0, "cat_max_ratio": 1.0, **COLORS_UNCHANGED}
IGNORE = 255


def views(count: int, image: Image.Image, mask: np.ndarray, size: int, **settings):
    transform = MaskAugmentation(**{**PLAIN, **settings}).train_transform(size, IGNORE)
    for seed in range(count):
        reseed(seed)
        yield transform(image, mask)


def test_without_changes_the_image_is_returned():
    ((pixels, mask),) = views(1, random_image(0, 9, 9), random_mask(0, 3, 9, 9), 9)
    assert (pixels.dtype, mask.dtype) == (torch.uint8, torch.uint8)
    assert np.array_equal(pixels.permute(1, 2, 0), random_image(0, 9, 9))
    assert np.array_equal(mask, random_mask(0, 3, 9, 9))


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({"hflip": 0.5}, 2),
        ({"vflip": 0.5}, 2),
        ({"quarter_turns": True}, 4),
        ({"hflip": 0.5, "quarter_turns": True}, 8),
    ],
)
def test_flips_and_turns_change_image_and_mask_alike(settings, count):
    image = random_image(0, 9, 9)
    red = np.asarray(image)[..., 0].copy()
    seen = set()
    for pixels, mask in views(80, image, red, 9, **settings):
        assert np.array_equal(mask, pixels[0])
        seen.add(mask.numpy().tobytes())
    expected = [np.rot90(flipped, k).tobytes() for flipped in (red, red[:, ::-1], red[::-1]) for k in range(4)]
    assert len(seen) == count
    assert seen <= {*expected}


def test_flips_have_their_direction():
    ((pixels, _),) = views(1, random_image(0, 9, 9), random_mask(0, 3, 9, 9), 9, hflip=1.0)
    assert np.array_equal(pixels.permute(1, 2, 0), np.asarray(random_image(0, 9, 9))[:, ::-1])
    ((pixels, _),) = views(1, random_image(0, 9, 9), random_mask(0, 3, 9, 9), 9, vflip=1.0)
    assert np.array_equal(pixels.permute(1, 2, 0), np.asarray(random_image(0, 9, 9))[::-1])


@given(
    *(st.integers(1, 50) for _ in range(3)),
    st.sampled_from([0.0, 30.0, 180.0]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_views_have_the_size_and_the_classes(width, height, size, rotation, turns, seed):
    """Also of images of one pixel, and of crops that are much larger."""
    augmentation = MaskAugmentation(rotation=rotation, quarter_turns=turns)
    mask = np.random.default_rng(seed).integers(1, 4, (height, width), np.uint8)
    reseed(seed)
    pixels, cropped = augmentation.train_transform(size, IGNORE)(random_image(seed % 1000, width, height), mask)
    assert (pixels.shape, cropped.shape) == ((3, size, size), (size, size))
    assert pixels.is_contiguous()
    assert {*cropped.unique().tolist()} <= {*np.unique(mask).tolist(), IGNORE}
    assert (pixels[:, cropped == IGNORE] == 0).all(), "black, whatever the brightness"


def test_the_same_seed_gives_the_same_view():
    image, mask = random_image(0, 60, 40), random_mask(0, 3, 60, 40)
    settings = {**vars(MaskAugmentation()), "rotation": 20.0, "quarter_turns": True}
    first, again = (list(views(20, image, mask, 24, **settings)) for _ in range(2))
    for (pixels, classes), (same_pixels, same_classes) in zip(first, again, strict=True):
        assert torch.equal(pixels, same_pixels)
        assert torch.equal(classes, same_classes)
    assert len({pixels.numpy().tobytes() for pixels, _ in first}) == 20


def test_scales_are_between_their_limits():
    """A square of 20 pixels becomes one of 10 to 40."""
    sides = []
    for _, mask in views(200, gray_image(9, 20), np.zeros((20, 20), np.uint8), 64, scale=(0.5, 2.0)):
        sides.append(int((mask == 0).any(dim=0).sum()))
        assert (mask == 0).sum() == sides[-1] ** 2
    assert 10 <= min(sides) <= 11
    assert 39 <= max(sides) <= 40


def test_crops_with_one_dominant_class_are_drawn_again():
    """A tenth of the image has a second class; random crops of this size mostly miss it."""
    mask = np.zeros((100, 100), np.uint8)
    mask[:, 45:55] = 1
    image = gray_image(9, 100)

    def mixed(**settings) -> float:
        return np.mean([len(classes.unique()) > 1 for _, classes in views(200, image, mask, 20, **settings)])

    assert 0.2 < mixed() < 0.5
    assert mixed(cat_max_ratio=0.9) > 0.9


def test_the_share_of_a_class_is_that_of_labeled_pixels():
    """Half of the image is ignored and a quarter belongs to each class: no class covers more than 0.6 of the rest."""
    mask = np.full((40, 40), IGNORE, np.uint8)
    mask[10:30, 10:20], mask[10:30, 20:30] = 0, 1
    for _, classes in views(50, gray_image(9, 40), mask, 40, cat_max_ratio=0.6):
        assert (classes == torch.from_numpy(mask)).all()
    draws = list(views(100, gray_image(9, 40), mask, 20, cat_max_ratio=0.6))
    shares = [float((classes == 0).sum() / (classes < 2).sum()) for _, classes in draws]
    assert np.mean([0.4 <= share <= 0.6 for share in shares]) > 0.9


def test_a_mask_without_labels_is_cropped_all_the_same():
    ((_, mask),) = views(1, gray_image(9, 20), np.full((20, 20), IGNORE, np.uint8), 10, cat_max_ratio=0.75)
    assert (mask == IGNORE).all()


@pytest.mark.parametrize("size", [0, -1, 100_000])
def test_impossible_crops_are_rejected(size):
    with pytest.raises(ValueError, match=f"expected crops of 1 to 8192 pixels per side, got {size}"):
        MaskAugmentation().train_transform(size, IGNORE)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale": (0.0, 1.0)}, "two ascending factors"),
        ({"scale": (2.0, 1.0)}, "two ascending factors"),
        ({"scale": (1.0, 1000.0)}, "two ascending factors"),
        ({"hflip": 1.5}, r"hflip from 0 to 1, got 1\.5"),
        ({"cat_max_ratio": -0.1}, r"cat_max_ratio from 0 to 1, got -0\.1"),
        ({"rotation": 181.0}, r"rotation from 0 to 180, got 181\.0"),
        ({"hue": -1.0}, r"hue from 0 to 90, got -1\.0"),
    ],
)
def test_impossible_settings_are_rejected(settings, message):
    with pytest.raises(ValueError, match=message):
        MaskAugmentation(**settings)
