"""Exact quarter turns, bilinear rotations, fills, and the inscribed disk."""

import pytest
import torch

from spectral_vmamba.ops.turns import (
    FILLS,
    Rotation,
    inscribed_disk,
    mask_outside_disk,
    rotate,
    rotate_pixels,
    rotated_positions,
    sample,
    turn,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize("size", [(9, 9), (8, 8)], ids=str)
def test_bilinear_rotation_agrees_with_quarter_turns(size):
    """An angle given as a tensor is interpolated."""
    images = torch.randn(2, 3, *size, dtype=torch.float64)
    for quarters in (1, 2, 3):
        rotated = rotate(images, torch.tensor(90.0 * quarters, dtype=torch.float64))
        torch.testing.assert_close(rotated, turn(images, quarters), rtol=0, atol=2e-14)  # measured: 1.8e-15
    landscape = torch.randn(1, 2, 6, 10, dtype=torch.float64)
    rotated = rotate(landscape, torch.tensor(180.0, dtype=torch.float64))
    torch.testing.assert_close(rotated, turn(landscape, 2), rtol=0, atol=2e-14)


@pytest.mark.parametrize("outside", ["zeros", "reflection"])
@pytest.mark.parametrize(("degrees", "quarters"), [(90, 1), (180.0, 2), (270, 3), (-90.0, 3), (360, 0), (0.0, 0)])
def test_multiples_of_90_are_exact_quarter_turns(degrees, quarters, outside):
    images = torch.randn(1, 1, 4, 6)
    assert torch.equal(rotate(images, degrees, outside), turn(images, quarters))


def test_other_angles_keep_the_canvas():
    assert rotate(torch.randn(1, 1, 4, 6), 45).shape == (1, 1, 4, 6)
    assert rotate(torch.randn(1, 1, 4, 6), torch.tensor(90.0)).shape == (1, 1, 4, 6)


def test_a_landscape_image_rotates_about_its_center_without_stretching():
    image = torch.zeros(1, 1, 21, 41, dtype=torch.float64)
    image[0, 0, 10, 28] = 1.0  # 8 to the right of the center
    rotated = rotate(image, torch.tensor(90.0))
    assert rotated[0, 0].argmax() == 2 * 41 + 20  # 8 above it
    there_and_back = rotate(rotate(torch.ones(1, 1, 21, 41), 30.0), -30.0)
    assert there_and_back[0, 0, 10, 20] == 1.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_rotated_in_float32(dtype):
    image = torch.rand(1, 1, 224, 224, dtype=dtype)
    rotated = rotate(image, 30.0)
    assert rotated.dtype is dtype
    assert torch.equal(rotated, rotate(image.float(), 30.0).to(dtype))


def test_fills():
    pixels = torch.full((1, 3, 9, 9), 200, dtype=torch.uint8)
    black, reflect, disk = (rotate_pixels(pixels, 45, fill) for fill in ("black", "reflect", "disk"))
    assert black[0, 0, 0, 0] == 0
    torch.testing.assert_close(reflect, pixels.float(), rtol=0, atol=1e-4)  # measured: 3.1e-5
    assert disk[0, 0, 0, 0] == 0
    assert disk[0, 0, 4, 4] == 200
    assert torch.equal(rotate_pixels(pixels, 90, "disk"), pixels * inscribed_disk(9, 9, CPU))


@pytest.mark.parametrize("size", [(9, 9), (64, 64), (6, 10), (7, 4)], ids=str)
def test_the_inscribed_disk_is_round_and_turns_with_the_image(size):
    disk = inscribed_disk(*size, CPU)
    assert torch.equal(turn(disk, 1), inscribed_disk(*size[::-1], CPU))
    radii = [
        [((y - (size[0] - 1) / 2) ** 2 + (x - (size[1] - 1) / 2) ** 2) ** 0.5 for x in range(size[1])]
        for y in range(size[0])
    ]
    assert torch.equal(disk, torch.tensor(radii) <= min(size) / 2)


def test_masking_outside_the_disk():
    masked = mask_outside_disk(torch.ones(1, 1, 64, 64))
    assert torch.equal(masked[0, 0] > 0, inscribed_disk(64, 64, CPU))
    assert float(masked.mean()) == pytest.approx(torch.pi / 4, abs=0.003)  # measured: 0.0009
    assert mask_outside_disk(torch.full((1, 1, 8, 8), torch.nan))[0, 0, 0, 0] == 0


@pytest.mark.parametrize("disk_only", [False, True])
def test_the_simplest_rotation_has_the_same_pixels(disk_only):
    """Of the disk, for a network that sees only the disk; and rotations with other pixels stay apart."""
    pixels = torch.randint(0, 256, (1, 3, 12, 12), dtype=torch.uint8)
    see = mask_outside_disk if disk_only else torch.Tensor.contiguous
    views = {
        Rotation(angle, fill): see(rotate_pixels(pixels, angle, fill)) for angle in (0.0, 30.0, 90.0) for fill in FILLS
    }
    for rotation, view in views.items():
        assert torch.equal(view, views[rotation.simplify(disk_only)])
    distinct = {rotation.simplify(disk_only) for rotation in views}
    assert len(distinct) == (4 if disk_only else 7)
    assert len({views[rotation].numpy().tobytes() for rotation in distinct}) == len(distinct)


def test_beyond_the_disk_its_reflection_is_shown():
    size = 41
    steps = torch.arange(size) - size // 2
    radius = (steps[:, None] ** 2 + steps**2).sqrt()
    image = mask_outside_disk(radius.expand(1, 1, size, size))
    rotated = sample(image, rotated_positions(image, torch.tensor([[0.6, 0.8]]), (33, 33), reflect=True))[0, 0]
    center = radius[4:-4, 4:-4]
    edge = (size - 1) / 2  # the distance of the outermost pixels from the center
    expected = torch.where(center > edge, 2 * edge - center, center)
    smooth = (center > 1) & ((center - edge).abs() > 1)  # elsewhere the distance has a kink
    assert (rotated - expected)[smooth].abs().max() < 0.1  # measured: 0.054
    assert expected[0, 0] < edge < center[0, 0], "a corner of the square is outside the disk"
