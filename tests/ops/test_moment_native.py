"""The native kernels of the frame "moment" against the torch operations of the same frame."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spectral_vmamba.ops.frames import Pose, moment, moment_frame, moment_native, rotate_further
from spectral_vmamba.ops.turns import mask_outside_disk, turn
from tests.support.native import needs_native

pytestmark = needs_native
EPS = torch.finfo(torch.float32).eps


def by_torch(function, *arguments):
    """The result of the torch operations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moment, "has_native_kernel", lambda _: False)
        return function(*arguments)


def random_images(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def random_rotations(seed, count):
    radians = torch.rand(count, generator=torch.Generator().manual_seed(seed + 1)) * 2 * torch.pi
    return torch.stack([radians.cos(), radians.sin()], dim=1)


@given(seed=st.integers(0, 2**16), side=st.integers(1, 40), channels=st.integers(1, 20), levels=st.integers(1, 300))
def test_quarter_turns_and_directions_have_the_same_bits(seed, side, channels, levels):
    """Few levels: images that equal their own turns, or have no direction."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, levels, (3, channels, side, side), generator=generator) / levels
    (_, pose), (_, expected) = moment_frame(images), by_torch(moment_frame, images)
    assert torch.equal(pose.own, expected.own)
    assert torch.equal(pose.rotation, expected.rotation)


@pytest.mark.parametrize("side", [1, 2, 7, 31, 32, 48, 65, 128, 129])
@pytest.mark.parametrize("channels", [1, 3, 4, 5])
def test_rotation_is_as_exact_as_that_of_torch(side, channels):
    images = mask_outside_disk(random_images(side, 4, channels, side, side))
    rotation, pose = random_rotations(side, 4), Pose(0, torch.zeros(4, dtype=torch.int64), 1)
    native, _ = rotate_further(images, pose, rotation)
    eager, _ = by_torch(rotate_further, images, pose, rotation)
    exact, _ = by_torch(rotate_further, images.double(), pose, rotation.double())
    # A position of up to `side` pixels is rounded by side · ε / 2, where the image changes by up to 5 per pixel.
    rounding = 5 * side * EPS
    assert (native - exact).abs().max() <= 2 * (eager - exact).abs().max() + rounding
    assert torch.equal(native == 0, eager == 0), "the disk"


@given(seed=st.integers(0, 2**16), side=st.integers(1, 70), quarters=st.integers(0, 3))
def test_images_in_position_have_the_same_bits_as_with_torch(seed, side, quarters):
    images = mask_outside_disk(random_images(seed, 2, 3, side, side))
    rotation = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])[[quarters, 0]]
    pose = Pose(0, torch.zeros(2, dtype=torch.int64), 1)
    turned, expected = rotate_further(images, pose, rotation)[0], by_torch(rotate_further, images, pose, rotation)[0]
    # With a blur, sums of up to 7 products, twice, of values and weights whose sums are below 5 and 1.
    torch.testing.assert_close(turned, expected, rtol=0, atol=0 if side < 48 else 14 * 5 * EPS)


@pytest.mark.parametrize("side", [16, 64])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_invalid_pixels_spread_as_with_torch(side, value):
    """In seven of eight images, each at another pixel: a wrong brightness may cancel in some."""
    images = random_images(0, 8, 3, side, side)
    columns = torch.arange(7) + side // 4
    images[torch.arange(7), 1, side // 2, columns] = value
    (native, pose), (expected, expected_pose) = moment_frame(images), by_torch(moment_frame, images)
    assert torch.equal(pose.rotation, expected_pose.rotation)
    assert native[:7, 1].isfinite().logical_not().flatten(1).any(1).all()
    torch.testing.assert_close(native.isfinite(), expected.isfinite())
    torch.testing.assert_close(native[7], expected[7], rtol=0, atol=5 * side * EPS)


def test_an_invalid_rotation_reads_no_other_memory():
    images, pose = random_images(0, 4, 3, 32, 32), Pose(0, torch.zeros(4, dtype=torch.int64), 1)
    rotation = torch.tensor([[torch.nan, torch.inf], [1e30, -1e30], [1e7, 0.0], [0.0, -1e9]])
    rotated, _ = rotate_further(images, pose, rotation)
    assert rotated.abs().nan_to_num(0).max() <= images.abs().max()


@pytest.mark.parametrize("threads", [1, 3])
def test_every_value_is_written_whatever_the_number_of_threads(monkeypatch, threads, crops):
    images = crops(5, 64)
    expected, expected_pose = moment_frame(images)
    empty_like, empty = torch.empty_like, torch.empty
    monkeypatch.setattr(moment_native.torch, "empty_like", lambda *a, **k: empty_like(*a, **k).fill_(float("nan")))
    monkeypatch.setattr(moment_native.torch, "empty", lambda *a, **k: empty(*a, **k).fill_(-7))
    monkeypatch.setattr(moment_native.torch, "get_num_threads", lambda: threads)
    posed, pose = moment_frame(images)
    assert torch.equal(posed, expected)
    assert torch.equal(pose.own, expected_pose.own)


def test_strided_images_are_read_in_order(crops):
    images = crops(4, 33)
    expected, _ = moment_frame(images)
    for strided in (images.contiguous(memory_format=torch.channels_last), turn(images, 1).rot90(-1, (-2, -1))):
        assert torch.equal(moment_frame(strided)[0], expected)


def test_gradients_pass_through_torch(crops):
    images = crops(2, 32).requires_grad_()
    posed, _ = moment_frame(images)
    (gradient,) = torch.autograd.grad(posed.sum(), images)
    assert gradient.abs().sum() > 0
    assert torch.equal(torch.func.grad(lambda x: moment_frame(x)[0].sum())(images.detach()), gradient)
    with torch.no_grad():
        torch.testing.assert_close(moment_frame(images)[0], posed, rtol=0, atol=5 * 32 * EPS)


def test_tangents_are_not_lost(crops):
    """torch cannot differentiate its bicubic interpolation forwards, and says so."""
    images = crops(2, 32)
    with pytest.raises(NotImplementedError, match="forward AD"):
        torch.func.jvp(lambda x: moment_frame(x)[0], (images,), (torch.ones_like(images),))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(images, torch.ones_like(images))
        with pytest.raises(NotImplementedError, match="forward AD"):
            moment_frame(dual)
