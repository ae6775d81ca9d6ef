import pytest
import torch
from torch import nn

from spectral_vmamba.metrics.rotation_gap import traversal_gap
from spectral_vmamba.models import timm
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.traversal import Traversal
from spectral_vmamba.testing import RotationGap, activate_scan, rotation_gap


class MeanColor(nn.Module):
    """Invariant to quarter turns by construction, up to the rounding of a mean."""

    def forward(self, images):
        return images.mean((2, 3))


class TopRow(nn.Module):
    def forward(self, images):
        return images[:, :, 0].sum(-1)


def test_an_invariant_model_has_no_gap():
    gaps = rotation_gap(MeanColor(), torch.randn(4, 3, 8, 8).double())
    assert [gap.angle for gap in gaps] == [90, 180, 270]
    assert all(gap.flips == 0 and gap.max_difference < 1e-12 for gap in gaps)
    assert gaps[0].positions_unchanged is gaps[0].sign_flips is gaps[0].rank_correlation is None


def test_a_model_that_looks_at_the_top_row_has_one():
    images = torch.zeros(2, 2, 4, 4)
    images[:, 0, 0] = 1  # a bright top row in channel 0 …
    images[:, 1, :, 0] = 2  # … and a brighter left column in channel 1, which a clockwise turn brings to the top
    gaps = {gap.angle: gap for gap in rotation_gap(TopRow(), images, [270, 360, 45])}
    logits = torch.tensor([[4.0, 2.0], [4.0, 2.0]])
    turned = torch.tensor([[1.0, 8.0], [1.0, 8.0]])
    assert gaps[270].flips == 2
    assert gaps[270].max_difference == pytest.approx(float((turned - logits).abs().max() / logits.std(correction=0)))
    assert gaps[270].mean_difference == pytest.approx(float((turned - logits).abs().mean() / logits.std(correction=0)))
    assert gaps[360].bitwise_equal
    assert gaps[45].max_difference > 0


@pytest.mark.parametrize("name", ["resnet18", "vit_tiny_patch16_224"])
def test_any_timm_model(name):
    size = 224 if name.startswith("vit") else 64
    (gap,) = rotation_gap(timm.create_model(name, num_classes=10), torch.randn(2, 3, size, size), [90])
    assert isinstance(gap, RotationGap)
    assert gap.max_difference > 0


def test_the_model_is_left_as_it_was_and_batches_do_not_matter(crops):
    model = timm.create_model("spectral_vmamba_nano", num_classes=5).train()
    images = crops(5, 32)
    all_at_once, in_twos = (rotation_gap(model, images, [90, 30], batch_size=size) for size in (5, 2))
    assert model.training
    for a, b in zip(all_at_once, in_twos, strict=True):
        assert a.flips == b.flips
        assert a.sign_flips == b.sign_flips
        assert a.rank_correlation == pytest.approx(b.rank_correlation)
        assert a.mean_difference == pytest.approx(b.mean_difference, abs=1e-4)
    assert all_at_once[1].positions_unchanged is None
    assert 0 < all_at_once[1].rank_correlation < 1


def test_activate_scan_makes_order_matter(crops):
    """Scrambling every order changes an active network's answers far more than the initial one's."""
    images = crops(8, 32)

    def effect(active):
        torch.manual_seed(0)
        model = timm.create_model("spectral_vmamba_nano", num_classes=50).eval()
        if active:
            activate_scan(model)
        with torch.no_grad():
            logits = model(images)
            tokenizer = model.tokenizer
            traverse = tokenizer.traverse
            tokenizer.traverse = lambda tokens, grid: _scrambled(traverse(tokens, grid))
            return float((model(images) - logits).abs().max() / logits.std())

    assert effect(active=True) > 10 * effect(active=False)


def _scrambled(traversal):
    return Traversal.from_ranks(traversal.grid, traversal.ranks.flip(-1), traversal.content)


def test_correlations_on_the_disk_ignore_the_cells_outside():
    """Ranks that grow outwards hardly change under a turn by 30°, whatever number they start from."""
    grid = Grid(14, 14, "disk")
    for offset in (0, 1000):
        ranks = (grid.squared_radii() + offset).expand(1, 1, -1)
        traversal = Traversal.from_ranks(grid, ranks, torch.zeros_like(ranks[:, 0]))
        assert float(traversal_gap(traversal, traversal, 30.0).correlations) > 0.98


def test_one_image_of_one_class():
    (gap,) = rotation_gap(nn.Sequential(nn.Flatten(), nn.Linear(48, 1)), torch.randn(1, 3, 4, 4), [360])
    assert gap.bitwise_equal
