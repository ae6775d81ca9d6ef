"""Scores of masks against their definitions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.segmentation.metrics import BoundaryCounts, count_pixels, dice_loss, mask_scores

pytest.importorskip("torchmetrics", reason="needs the extra `segment`")


def random_masks(seed, classes=3, size=(6, 7)):
    generator = torch.Generator().manual_seed(seed)
    predicted, labels = (torch.randint(0, classes, size, generator=generator) for _ in range(2))
    labels[torch.rand(size, generator=generator) < 0.2] = 255
    return predicted, labels


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**16))
def test_iou_is_intersection_over_union(seed):
    predicted, labels = random_masks(seed)
    scores = mask_scores(count_pixels(predicted, labels, 4, 255))
    known = labels != 255
    expected = []
    for number in range(4):
        ours, theirs = (predicted == number) & known, labels == number
        union = int((ours | theirs).sum())
        expected.append(int((ours & theirs).sum()) / union if union else None)
    assert scores.class_iou == pytest.approx(tuple(expected))
    assert scores.mean_iou == pytest.approx(np.mean([value for value in expected if value is not None]))
    assert scores.pixel_accuracy == pytest.approx(float((predicted == labels)[known].float().mean()))


def test_a_mask_without_labels_scores_zero():
    counts = count_pixels(torch.zeros(3, 3), torch.full((3, 3), 255), 2, 255)
    assert mask_scores(counts).mean_iou == 0


def boundary_f1(predicted, labels, classes=2):
    counts = BoundaryCounts.empty(classes)
    counts.add(predicted.astype(np.uint8), labels.astype(np.uint8), 255)
    return counts.f1()


def square(shift=0, side=200):
    mask = np.zeros((side, side), np.uint8)
    mask[50 + shift : 150 + shift, 50:150] = 1
    return mask


def test_boundaries_that_are_near_count():
    """0.75 % of the diagonal of 200 × 200 pixels are 2.1 pixels."""
    assert boundary_f1(square(), square()) == 1
    assert boundary_f1(square(2), square()) == 1
    assert 0 < boundary_f1(square(4), square()) < 0.6
    assert boundary_f1(np.zeros((200, 200)), square()) == 0


def test_ignored_boundaries_do_not_count():
    labels = square()
    labels[40:160, 140:] = 255  # the right side of the square
    moved = square()
    moved[50:150, 120:200] = 0
    moved[50:150, 120:150] = 1
    assert boundary_f1(moved, labels) == 1


def test_the_edge_of_the_image_is_no_boundary():
    assert boundary_f1(np.ones((20, 20)), np.ones((20, 20))) is None  # there is none


def test_a_perfect_mask_whose_boundaries_are_ignored_has_no_score():
    labels = np.zeros((20, 20), np.uint8)
    labels[5:15, 5:15], labels[6:14, 6:14] = 255, 1
    assert boundary_f1(np.where(labels == 1, 1, 0), labels) is None


def test_dice_of_a_perfect_and_of_a_wrong_mask():
    labels = torch.tensor([[[0, 1], [1, 255]]])
    scores = torch.full((1, 2, 2, 2), -50.0)
    scores.scatter_(1, torch.where(labels == 255, 0, labels)[:, None], 50.0)
    assert dice_loss(scores, labels, 255) == pytest.approx(0, abs=1e-6)
    assert dice_loss(-scores, labels, 255) == pytest.approx(1, abs=1e-6)
    assert dice_loss(scores, torch.full_like(labels, 255), 255) == 0


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**16))
def test_dice_is_its_definition(seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (2, 4, 5), generator=generator)
    scores = torch.randn(2, 3, 4, 5, generator=generator, dtype=torch.float64)
    share = scores.softmax(1)
    dice = []
    for number in labels.unique().tolist():
        truth = (labels == number).double()
        dice.append(2 * (share[:, number] * truth).sum() / (share[:, number].sum() + truth.sum()))
    assert float(dice_loss(scores, labels, 255)) == pytest.approx(1 - float(sum(dice)) / len(dice), rel=1e-12)
