"""Answers on rotated images compared with answers on upright images."""

import math

import pytest
import torch
from torch import nn

from spectral_vmamba.metrics.rotation import AngleScores, OutputChange, Sweep, measure_sweep, sweep_angles
from spectral_vmamba.models import timm
from spectral_vmamba.testing import RotationGap, rotation_gap


class MeanColor(nn.Module):
    """Invariant to quarter turns by construction, up to the rounding of a mean."""

    def forward(self, images):
        return images.mean((2, 3))


class TopRow(nn.Module):
    """Sums the top row of each channel: not invariant."""

    def forward(self, images):
        return images[:, :, 0].sum(-1)


def corner_images() -> torch.Tensor:
    """Two images with a bright top row in channel 0 and a brighter left column in channel 1."""
    images = torch.zeros(2, 2, 4, 4)
    images[:, 0, 0] = 1
    images[:, 1, :, 0] = 2
    return images


def test_changes_accumulate_over_batches():
    upright = torch.tensor([[1.0, 0.0], [0.25, 0.75], [0.5, 0.25]])
    rotated = torch.tensor([[0.75, 0.25], [1.0, 0.0], [0.5, 0.25]])
    change = OutputChange()
    change.add(upright[:2], rotated[:2])
    change.add(upright[2:], rotated[2:])
    assert change == OutputChange(images=3, flips=1, max_change=0.75, mean_change=pytest.approx(1 / 3))


def test_changes_in_units():
    change = OutputChange()
    change.add(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 0.0]]), torch.tensor(2.0))
    assert (change.max_change, change.mean_change) == (0.5, 0.25)


def test_nan_is_not_hidden():
    change = OutputChange()
    change.add(torch.tensor([[1.0, 0.0]]), torch.tensor([[math.nan, 0.0]]))
    change.add(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0]]))
    assert math.isnan(change.max_change)


def test_a_sweep_by_hand():
    """Upright class 0 wins (4 to 2). Rotated by 270°, the left column is on top and class 1 wins (8 to 1)."""
    pixels, labels = corner_images(), torch.tensor([0, 1])
    batches = [(pixels[:1], labels[:1]), (pixels[1:], labels[1:])]
    sweep = measure_sweep("top row", lambda images: TopRow()(images), batches, [0.0, 270.0, 180.0])
    upright, three_quarters, half = sweep.points
    assert upright == AngleScores(0.0, images=2, correct=1, agreeing=2, max_change=0.0, correct_per_class=(1, 0))
    assert three_quarters == AngleScores(270.0, 2, correct=1, agreeing=0, max_change=6.0, correct_per_class=(0, 1))
    assert (half.images, half.max_change) == (2, 4.0)
    assert (sweep.name, sweep.fill) == ("top row", "black")


def test_properties_of_a_sweep():
    points = [AngleScores(angle, 10, 10 - i, 9, 0.1) for i, angle in enumerate((0.0, 45.0, 90.0, 180.0))]
    sweep = Sweep("a", "black", points)
    assert sweep.upright.accuracy == 1.0
    assert sweep.worst.angle == 180
    assert sweep.mean_accuracy == pytest.approx(0.85)
    assert [point.angle for point in sweep.quarters] == [90, 180]
    assert [point.flips for point in sweep.quarters] == [1, 1]
    assert sweep.worst.agreement == 0.9


def test_sweep_angles_include_the_quarter_turns():
    assert sweep_angles(120) == [0, 90, 120, 180, 240, 270]
    assert len(sweep_angles(15)) == 24
    with pytest.raises(ValueError, match="step"):
        sweep_angles(0)


def test_an_invariant_model_has_no_gap():
    gaps = rotation_gap(MeanColor(), torch.randn(4, 3, 8, 8).double())
    assert [gap.angle for gap in gaps] == [90, 180, 270]
    assert all(gap.flips == 0 and gap.max_difference < 1e-15 for gap in gaps)  # measured: 0
    assert gaps[0].positions_unchanged is gaps[0].sign_flips is gaps[0].rank_correlation is None


def test_the_gap_of_a_model_that_reads_the_top_row():
    gaps = {gap.angle: gap for gap in rotation_gap(TopRow(), corner_images(), [270, 360, 45])}
    logits = torch.tensor([[4.0, 2.0], [4.0, 2.0]])
    rotated = torch.tensor([[1.0, 8.0], [1.0, 8.0]])
    assert gaps[270].flips == 2
    assert gaps[270].max_difference == pytest.approx(float((rotated - logits).abs().max() / logits.std(correction=0)))
    assert gaps[270].mean_difference == pytest.approx(float((rotated - logits).abs().mean() / logits.std(correction=0)))
    assert gaps[360].bitwise_equal
    assert gaps[45].max_difference > 0


def test_progress_sees_every_angle():
    seen = []

    def progress(items, description, total):
        for item in items:
            seen.append((item, total))
            yield item

    rotation_gap(MeanColor(), torch.randn(1, 3, 8, 8), [90, 45], progress=progress)
    assert seen == [(90, 2), (45, 2)]


@pytest.mark.parametrize("name", ["resnet18", "vit_tiny_patch16_224"])
def test_any_timm_model(name):
    size = 224 if name.startswith("vit") else 64
    (gap,) = rotation_gap(timm.create_model(name, num_classes=10), torch.randn(2, 3, size, size), [90])
    assert isinstance(gap, RotationGap)
    assert gap.max_difference > 0


def test_the_mode_is_restored_and_the_batch_size_does_not_matter(crops):
    model = timm.create_model("spectral_vmamba_nano", num_classes=5).train()
    images = crops(5, 32)
    whole, in_twos = (rotation_gap(model, images, [90, 30], batch_size=size) for size in (5, 2))
    assert model.training
    for a, b in zip(whole, in_twos, strict=True):
        assert a.flips == b.flips
        assert a.sign_flips == b.sign_flips
        assert a.rank_correlation == pytest.approx(b.rank_correlation, abs=1e-12)  # measured: 0
        assert a.mean_difference == pytest.approx(b.mean_difference, abs=3e-7)  # measured: 3e-8
    assert whole[1].positions_unchanged is None
    assert 0 < whole[1].rank_correlation < 1


def test_one_image_of_one_class():
    (gap,) = rotation_gap(nn.Sequential(nn.Flatten(), nn.Linear(48, 1)), torch.randn(1, 3, 4, 4), [360])
    assert gap.bitwise_equal
