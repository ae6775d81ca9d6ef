"""The frame "moment": its direction turns with the image, exactly where turns are exact."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.ops import turns
from spectral_vmamba.ops.frames import Pose, brightness_direction, moment_frame, moment_orbit, rotate_further
from spectral_vmamba.ops.frames.moment import _weights
from spectral_vmamba.ops.turns import inscribed_disk, mask_outside_disk, rotate, turn
from tests.support.rotation import angle_between

SIZES = [(32, 32), (31, 31), (24, 40), (40, 24), (3, 5), (1, 5), (1, 1)]


def degrees_of(images):
    """Of the brightness direction, counterclockwise from the right."""
    right, up = brightness_direction(images).double().unbind(1)
    return torch.rad2deg(torch.atan2(up, right))


def direction_by_definition(image):
    """The centroid of brightness times 1 − r², in float64 and pixel by pixel."""
    gray, (height, width) = image.double().sum(0), image.shape[-2:]
    diameter, total = min(height, width), torch.zeros(2, dtype=torch.float64)
    for row in range(height):
        for column in range(width):
            position = torch.tensor([2 * column - (width - 1), (height - 1) - 2 * row], dtype=torch.float64) / diameter
            total += gray[row, column] * position * (1 - position.square().sum()).clamp(min=0)
    return torch.rad2deg(torch.atan2(total[1], total[0]))


@pytest.mark.parametrize("size", SIZES[:4], ids=str)
def test_the_direction_is_its_definition(size):
    image = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(0))
    # Weights of up to 1 are rounded at 2^-11, brightness at 2^-13: over 1,000 pixels of both signs the centroid moves
    # by about √1000 · 3 · 2^-11 / 2, and its length here is at least 5.
    assert angle_between(degrees_of(image)[0], direction_by_definition(image[0])) < 0.3


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_quarter_turns_have_the_same_bits(size, crops):
    images = crops(6, size)
    posed, _ = moment_frame(images)
    for quarters in (1, 2, 3):
        assert torch.equal(moment_frame(turn(images, quarters))[0], posed)


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**16), side=st.integers(1, 9), quarters=st.integers(1, 3))
def test_the_direction_turns_with_the_image(seed, side, quarters):
    image = torch.randint(0, 256, (1, 3, side, side), generator=torch.Generator().manual_seed(seed)).float()
    before, after = degrees_of(image)[0], degrees_of(turn(image, quarters))[0]
    if before != 90 or after != 90:  # no direction
        # the centroid is an exact integer: only its direction is rounded
        assert angle_between(after - before, 90 * quarters) < 1e-4


@pytest.mark.parametrize("angle", [7.0, 30.0, 45.0, 100.0, 213.0])
def test_any_angle_has_nearly_the_same_position(angle, crops):
    """Bilinear rotation moves the centroid a little: its error is measured, on photographs."""
    images = crops(24, 64)
    errors = angle_between(degrees_of(rotate(images, angle)) - degrees_of(images), angle)
    assert errors.median() < 0.5
    posed, turned = moment_frame(images)[0], moment_frame(rotate(images, angle))[0]
    inside = inscribed_disk(56, 56, images.device)
    before, after = (part[..., 4:-4, 4:-4][..., inside] for part in (posed, turned))
    # Bilinear interpolation blurs, so that the images are not the same: they correlate, the unposed ones do not.
    correlation = torch.corrcoef(torch.stack([before.flatten(), after.flatten()]))[0, 1]
    unposed = [part[..., 4:-4, 4:-4][..., inside].flatten() for part in (images, rotate(images, angle))]
    assert correlation > 0.93
    assert correlation > torch.corrcoef(torch.stack(unposed))[0, 1] + 0.01


def test_the_centroid_points_up_afterwards(crops):
    posed, _ = moment_frame(crops(24, 64))
    assert angle_between(degrees_of(posed), 90).median() < 0.5


@pytest.mark.parametrize("batch", [1, 2, 3, 8, 13])
def test_a_pose_does_not_depend_on_the_batch(batch, crops):
    images = crops(24, (33, 33))
    posed, pose = moment_frame(images)
    part, part_pose = moment_frame(images[:batch])
    assert torch.equal(part, posed[:batch])
    assert torch.equal(part_pose.rotation, pose.rotation[:batch])


def test_maps_are_turned_there_and_back(crops):
    images = crops(6, 64)
    posed, pose = moment_frame(images)
    assert not pose.is_exact
    inside = inscribed_disk(48, 48, images.device)
    back = pose.undo(posed)[..., 8:-8, 8:-8][..., inside]
    original = images[..., 8:-8, 8:-8][..., inside]
    assert torch.corrcoef(torch.stack([back.flatten(), original.flatten()]))[0, 1] > 0.95


UNUSUAL = {
    "constant": torch.full((1, 3, 16, 16), 0.7),
    "symmetric": torch.eye(16)[None, None].maximum(torch.eye(16).flip(0)[None, None]).expand(1, 3, -1, -1),
    "nan": torch.full((1, 3, 16, 16), torch.nan),
    "infinite": torch.full((1, 3, 16, 16), torch.inf),
    "one pixel": torch.ones(1, 3, 1, 1),
    "half black": torch.cat([torch.zeros(1, 3, 8, 16), torch.ones(1, 3, 8, 16)], 2),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_images_have_a_direction(name):
    direction = degrees_of(UNUSUAL[name])
    assert direction.isfinite().all()
    if name in ("constant", "symmetric", "nan", "infinite", "one pixel"):
        assert direction == 90
    if name == "half black":
        assert direction == -90


def test_a_constant_image_stays_constant():
    posed, pose = moment_frame(UNUSUAL["constant"])
    assert pose.rotation.tolist() == [[1, 0]]
    inside = inscribed_disk(16, 16, posed.device)
    # bilinear coordinates are off by rounding, at most some 1e-6 pixels, and the disk has an edge
    torch.testing.assert_close(posed[..., inside], torch.full_like(posed[..., inside], 0.7), rtol=1e-4, atol=0)


def test_no_value_exceeds_those_of_the_image():
    image = (torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0)) > 0.5).float()
    posed, _ = moment_frame(image)
    assert posed.min() >= 0
    assert posed.max() <= 1


def test_half_precision_has_nearly_the_same_direction(crops):
    images = crops(12, 64)
    assert angle_between(degrees_of(images.half()), degrees_of(images)).max() < 1
    assert moment_frame(images.half())[0].dtype == torch.float16


def test_the_orbit_is_the_same_for_all_quarter_turns_and_starts_in_the_frame(crops):
    images = crops(4, 65)
    orbit = moment_orbit(images, 52, 12, 1.0)
    assert orbit.shape == (12, 4, 3, 52, 52)
    for quarters in range(1, 4):
        assert torch.equal(moment_orbit(turn(images, quarters), 52, 12, 1.0), orbit)
    assert torch.equal(orbit[3:], turn(orbit, 1)[:9]), "three copies further is a quarter turn"
    images = crops(4, 47)  # too small for the blur of the frame
    sharp = moment_orbit(images, 33, 4, 0.01)[0]  # a Gaussian with no weight on other pixels, and inside the disk
    # The values outside the disk, 0, are blurred to 0 as well, and limit those of the image in the same way.
    torch.testing.assert_close(sharp, moment_frame(images)[0][..., 7:40, 7:40])


def test_copies_of_the_orbit_are_steps_of_a_twelfth_turn(crops):
    orbit = moment_orbit(crops(4, 65), 65, 12, 2.0)
    for step in (1, 2):
        again = mask_outside_disk(rotate(orbit[0], 30 * step))
        assert (again - mask_outside_disk(orbit[step])).abs().mean() < 0.02
        assert (again - mask_outside_disk(orbit[step - 1])).abs().mean() > 0.05


def test_an_orbit_has_a_multiple_of_four_turns(crops):
    with pytest.raises(ValueError, match="expected a multiple of 4 turns, got 6"):
        moment_orbit(crops(1, 32), 24, 6, 1.0)


@given(seed=st.integers(0, 2**16), side=st.integers(1, 40), quarters=st.integers(0, 3), degrees=st.floats(-1.49, 1.49))
def test_a_rotation_near_a_quarter_turn_is_that_turn_exactly(seed, side, quarters, degrees):
    generator = torch.Generator().manual_seed(seed)
    image = mask_outside_disk(torch.randn(1, 2, side, side, generator=generator))
    radians = torch.deg2rad(torch.tensor([90.0 * quarters + degrees]))
    rotation = torch.stack([radians.cos(), radians.sin()], dim=1)
    turned, pose = rotate_further(image, Pose(0, torch.tensor([3]), 1), rotation)
    assert torch.equal(turned, turn(image, quarters))
    assert pose.own.tolist() == [(3 + quarters) % 4]
    assert pose.rotation.tolist() == [[1, 0]]


@given(height=st.integers(1, 300), width=st.integers(1, 300))
def test_tables_of_pixels_have_the_values_that_compiled_graphs_compute(height, width):
    device = torch.device("cpu")
    tables = _weights(height, width, device), inscribed_disk(height, width, device)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "_LARGEST_TABLE", 0)
        computed = _weights(height, width, device), inscribed_disk(height, width, device)
    assert all(torch.equal(a, b) for a, b in zip(tables, computed, strict=True))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_an_invalid_pixel_stays_in_its_image(value):
    images = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    expected, expected_pose = moment_frame(images)
    images[1, 0, 8, 3] = value
    posed, pose = moment_frame(images)
    assert pose.rotation.isfinite().all()
    assert torch.equal(posed[::2], expected[::2])
    assert torch.equal(pose.rotation[::2], expected_pose.rotation[::2])


@given(
    seed=st.integers(0, 2**16),
    height=st.integers(1, 6),
    width=st.integers(1, 6),
    channels=st.integers(1, 3),
    levels=st.integers(1, 3),
)
def test_tiny_flat_and_symmetric_images_have_one_frame(seed, height, width, channels, levels):
    """Few pixels of few values: many of these images have no direction, or equal their own turns."""
    generator = torch.Generator().manual_seed(seed)
    image = torch.randint(0, levels, (1, channels, height, width), generator=generator).float()
    posed, pose = moment_frame(image)
    assert pose.rotation.square().sum() == pytest.approx(1, abs=1e-6)
    assert posed.isfinite().all()
    for quarters in (1, 2, 3):
        assert torch.equal(moment_frame(turn(image, quarters))[0], posed)


def test_images_that_were_turned_before_are_nearly_as_sharp(crops):
    """Interpolation blurs: without the blur of the frame, they have 72 % of the second differences (measured)."""
    images = crops(24, 128)
    posed = second_differences(moment_frame(images)[0])
    for degrees in (15, 45):
        ratios = second_differences(moment_frame(rotate(images, degrees))[0]) / posed
        assert 0.83 < ratios.median() < 1
    assert torch.equal(moment_frame(images[:1])[0], moment_frame(images)[0][:1]), "in any batch"


def second_differences(images):
    """Mean absolute values of each image, well inside the disk."""
    center, (up, down, left, right) = (
        images[..., 1:-1, 1:-1],
        (images[..., :-2, 1:-1], images[..., 2:, 1:-1], images[..., 1:-1, :-2], images[..., 1:-1, 2:]),
    )
    return (4 * center - up - down - left - right)[..., 24:-24, 24:-24].abs().mean((1, 2, 3))
