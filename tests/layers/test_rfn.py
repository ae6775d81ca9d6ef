"""RFN is equivariant for any stem."""

import pytest
import torch
from torch import nn

from spectral_vmamba.layers import ConvStem, RotationalFeatureNormalizer
from spectral_vmamba.ops.turns import rotate, turn

ANGLES = (0, 90, 180, 270, 30, 120, 210, 300, 70.5, 160.5, 250.5, 340.5)
SIZES = [(32, 32), (24, 40), (97, 131), (30, 30), (5, 5), (3, 50)]


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("turns", [4, 8, "random", ANGLES, (90, 270, 0, 180)])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_quarter_turns_of_the_image_turn_the_features(size, turns, pool):
    rfn = RotationalFeatureNormalizer(ConvStem(3, 12, 8), 8, turns, pool).double().eval()
    images = torch.randn(2, 3, *size, dtype=torch.float64)
    with torch.no_grad():
        maps = rfn(images)
        assert maps.shape == (2, 12, -(-size[0] // 8), -(-size[1] // 8))
        for quarters in (1, 2, 3):
            assert torch.equal(rfn(turn(images, quarters)), turn(maps, quarters))


@pytest.mark.parametrize("size", [(32, 32), (24, 40)], ids=str)
def test_float32_features_keep_their_bits_after_a_turn_and_in_any_batch(size):
    rfn = RotationalFeatureNormalizer(ConvStem(3, 12, 8), 8).eval()
    images = torch.randn(8, 3, *size)
    with torch.no_grad():
        maps = rfn(images)
        assert torch.equal(rfn(turn(images, 1)), turn(maps, 1))
        assert torch.equal(rfn(images[3:4])[0], maps[3])


def test_a_stem_without_rfn_is_not_equivariant():
    rfn = RotationalFeatureNormalizer(ConvStem(3, 12, 8), 8, 1).eval()
    images = torch.randn(2, 3, 32, 32)
    assert (rfn(turn(images, 1)) - turn(rfn(images), 1)).abs().max() > 0.1


@pytest.mark.parametrize("pool", ["max", "mean"])
def test_four_turns_are_the_maximum_or_mean_over_four_views(pool):
    stem = ConvStem(3, 6, 4)
    images = torch.randn(1, 3, 16, 16)
    views = torch.stack([turn(stem(turn(images, q)), -q) for q in range(4)])
    maps = RotationalFeatureNormalizer(stem, 4, pool=pool)(images)
    # One batch of four views rounds differently from four batches of one. Measured: 8.3e-7.
    torch.testing.assert_close(maps, views.amax(0) if pool == "max" else views.mean(0), rtol=0, atol=8e-6)


def test_eight_turns_add_views_inside_the_disk_only():
    stem = ConvStem(3, 6, 4)
    images = torch.randn(1, 3, 32, 32)
    four, eight = (RotationalFeatureNormalizer(stem, 4, r)(images) for r in (4, 8))
    assert (eight >= four).all()
    assert (eight > four)[0, :, 3:5, 3:5].any()
    assert torch.equal(eight[..., 0, 0], four[..., 0, 0]), "the corners of the 45° view lie outside the image"


def test_random_turns_differ_between_calls_in_training_only():
    rfn = RotationalFeatureNormalizer(ConvStem(3, 6, 4), 4, "random")
    images = torch.randn(1, 3, 16, 16)
    assert not torch.equal(rfn.train()(images), rfn(images))
    assert torch.equal(rfn.eval()(images), rfn(images))
    rfn.train()(images).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in rfn.parameters())


@pytest.mark.parametrize(("turns", "passes"), [(4, 4), (8, 8), ("random", 4), (1, 1)])
def test_passes_counts_the_images_that_the_stem_processes(turns, passes):
    class Counting(nn.Module):
        processed = 0

        def forward(self, images):
            self.processed += len(images)
            return images[:, :, ::4, ::4]

    stem = Counting()
    rfn = RotationalFeatureNormalizer(stem, 4, turns).eval()
    rfn(torch.randn(3, 2, 8, 12))
    assert stem.processed == 3 * passes == 3 * rfn.passes


def test_unknown_turns():
    with pytest.raises(ValueError, match="expected turns"):
        RotationalFeatureNormalizer(nn.Identity(), 1, 5)
    with pytest.raises(ValueError, match="expected the pool max or mean"):
        RotationalFeatureNormalizer(nn.Identity(), 1, 4, "sum")


@pytest.mark.parametrize(("turns", "same"), [(4, (0, 90, 180, 270)), (8, tuple(range(0, 360, 45)))], ids=str)
def test_angles_and_numbers_of_turns_are_the_same(turns, same):
    stem, images = ConvStem(3, 6, 4), torch.randn(2, 3, 32, 32)
    a, b = (RotationalFeatureNormalizer(stem, 4, each)(images) for each in (turns, same))
    assert torch.equal(a, b)


def test_other_angles_are_the_maximum_over_views_that_know_a_cell():
    stem, images = ConvStem(3, 6, 4), torch.randn(1, 3, 32, 32)
    views = [rotate(stem(rotate(images, angle)), -angle) for angle in (0.0, 30.0)]
    maps = RotationalFeatureNormalizer(stem, 4, (0, 30))(images)
    middle = (..., slice(3, 5), slice(3, 5))
    torch.testing.assert_close(maps[middle], torch.stack(views).amax(0)[middle], rtol=0, atol=1e-5)
    assert torch.equal(maps[..., 0, 0], stem(images)[..., 0, 0]), "the corners of the 30° view lie outside the image"


def test_angles_without_their_quarter_turns_are_not_equivariant():
    rfn = RotationalFeatureNormalizer(ConvStem(3, 12, 8), 8, (0, 30)).eval()
    images = torch.randn(2, 3, 32, 32)
    assert (rfn(turn(images, 1)) - turn(rfn(images), 1)).abs().max() > 0.1


@pytest.mark.parametrize("turns", [(), (0, 360), (0, float("nan")), (0, "90"), 3, None], ids=str)
def test_bad_turns(turns):
    with pytest.raises(ValueError, match="angles"):
        RotationalFeatureNormalizer(ConvStem(3, 12, 8), 8, turns)
