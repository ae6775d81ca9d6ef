import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.ops.turns import canonical_frame, rotate, turn, turned

SIZES = [(8, 8), (7, 7), (6, 10), (9, 4), (1, 5), (1, 1)]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_all_quarter_turns_end_as_the_same_bits(size):
    images = torch.randn(5, 3, *size)
    upright, _ = canonical_frame(images)
    for quarters in range(4):
        assert torch.equal(canonical_frame(turn(images, quarters))[0], upright)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_undo_leads_back(size):
    images = torch.randn(5, 3, *size)
    upright, frame = canonical_frame(images)
    assert torch.equal(frame.undo(upright), images)


def test_the_frame_is_each_images_own():
    images = torch.stack([turn(torch.randn(3, 6, 6), i % 4) for i in range(8)])
    upright, frame = canonical_frame(images)
    for i in range(8):
        alone, own = canonical_frame(images[i : i + 1])
        assert torch.equal(alone[0], upright[i])
        assert own.own[0] == frame.own[i]


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**16), side=st.integers(1, 4), levels=st.integers(1, 2))
def test_symmetric_and_flat_images_too(seed, side, levels):
    """Few pixels of one or two values: many of these images equal some of their own turns."""
    image = torch.randint(0, levels, (1, 1, side, side), generator=torch.Generator().manual_seed(seed)).float()
    upright = canonical_frame(image)[0]
    for quarters in range(4):
        assert torch.equal(canonical_frame(turn(image, quarters))[0], upright)


def test_rotate_agrees_with_turn_at_quarter_turns():
    images = torch.randn(2, 3, 9, 9, dtype=torch.float64)
    for quarters in (1, 2, 3):
        torch.testing.assert_close(rotate(images, 90.0 * quarters), turn(images, quarters))
    landscape = torch.randn(1, 2, 6, 10, dtype=torch.float64)
    torch.testing.assert_close(rotate(landscape, 180.0), turn(landscape, 2))


def test_rotate_turns_a_landscape_image_about_its_centre_without_stretching():
    image = torch.zeros(1, 1, 21, 41, dtype=torch.float64)
    image[0, 0, 10, 28] = 1.0  # 8 to the right of the center
    turned_up = rotate(image, 90.0)
    assert turned_up[0, 0].argmax() == 2 * 41 + 20  # 8 above it
    there_and_back = rotate(rotate(torch.ones(1, 1, 21, 41), 30.0), -30.0)
    assert there_and_back[0, 0, 10, 20] == 1.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_turned_in_float32(dtype):
    image = torch.rand(1, 1, 224, 224, dtype=dtype)
    turned_half = rotate(image, 30.0)
    assert turned_half.dtype is dtype
    torch.testing.assert_close(turned_half, rotate(image.float(), 30.0).to(dtype))


def test_turned_is_exact_at_quarter_turns():
    images = torch.randn(1, 1, 4, 6)
    assert torch.equal(turned(images, 270), turn(images, 3))
    assert torch.equal(turned(images, -90), turn(images, 3))
    assert torch.equal(turned(images, 360), images)
    assert turned(images, 45).shape == images.shape
