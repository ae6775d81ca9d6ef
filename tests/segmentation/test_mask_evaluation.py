"""Evaluation of segmentation networks: scores, rotations, scales."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from spectral_vmamba.segmentation import evaluate_segmenter, load_segmenter
from spectral_vmamba.segmentation.mask_evaluation import average_scales, rotate_mask
from spectral_vmamba.segmentation.readers import read_masked_source
from tests.segmentation.conftest import write_pairs

pytest.importorskip("segmentation_models_pytorch", reason="needs the extra `segment`")


def test_the_validation_score_is_that_of_training(run):
    evaluation = evaluate_segmenter(run.folder)
    assert evaluation.scores.mean_iou == pytest.approx(run.best["score"], abs=1e-12)
    assert evaluation.images == 2
    assert "validation images" in evaluation.data


def test_quarter_turns_change_no_pixel(run, pairs):
    evaluation = evaluate_segmenter(run.folder, str(pairs), rotations=90)
    assert [each.angle for each in evaluation.rotations] == [0, 90, 180, 270]
    assert {each.agreement for each in evaluation.rotations} == {1.0}
    assert len({each.mean_iou for each in evaluation.rotations}) == 1
    assert evaluation.worst.mean_iou == evaluation.mean_iou_of_rotations


def test_other_angles_are_compared_inside_the_disk(run, pairs):
    evaluation = evaluate_segmenter(run.folder, str(pairs), rotations=30)
    upright, *others = evaluation.rotations
    assert upright.agreement == 1
    assert all(0.9 < each.agreement <= 1 for each in others)
    assert all(abs(each.mean_iou - upright.mean_iou) < 0.15 for each in others)


class PerfectNetwork(torch.nn.Module):
    """Bright pixels are disks."""

    def forward(self, images):
        bright = images.mean(1, keepdim=True) - 0.2
        return torch.cat([-bright, bright], dim=1)


def test_a_perfect_network_scores_one_at_every_angle(run, tmp_path):
    """Smooth disks: the turned image and the turned mask are the same up to the ignored ring around them."""
    data = write_pairs(tmp_path, count=3)
    for path in (data / "images").iterdir():
        mask = np.asarray(Image.open(data / "masks" / path.name))
        ring = np.where(mask == 255, 128, np.where(mask == 1, 250, 5)).astype(np.uint8)
        Image.fromarray(ring).convert("RGB").save(path)
    segmenter = replace(load_segmenter(run.folder), model=PerfectNetwork())
    segmenter = replace(segmenter, preprocessing=replace(segmenter.preprocessing, mean=(0.3,) * 3, std=(1.0,) * 3))
    evaluation = evaluate_segmenter(segmenter, read_masked_source(str(data))["all"], rotations=45, multi_scale=True)
    assert evaluation.scores.mean_iou == 1
    assert all(each.mean_iou > 0.97 for each in evaluation.rotations)
    assert evaluation.multi_scale.mean_iou > 0.97


def test_scales_are_averaged(run, pairs):
    segmenter = load_segmenter(run.folder)
    pixels = torch.from_numpy(np.array(Image.open(pairs / "images" / "00.png"))).permute(2, 0, 1)
    averaged = average_scales(segmenter, pixels)
    assert averaged.shape == (2, 48, 48)
    torch.testing.assert_close(averaged.sum(0), torch.ones(48, 48), rtol=0, atol=1e-5)
    mirrored = average_scales(segmenter, pixels.flip(-1)).flip(-1)
    torch.testing.assert_close(mirrored, averaged, rtol=0, atol=1e-5)


@pytest.mark.parametrize("angle", [0.0, 90.0, 270.0])
def test_quarter_turns_of_masks_are_exact(angle):
    mask = torch.randint(0, 5, (6, 9), dtype=torch.uint8)
    assert torch.equal(rotate_mask(mask, angle), torch.rot90(mask, round(angle / 90)))


def test_other_classes_are_refused(run, tmp_path):
    data = write_pairs(tmp_path, count=2)
    (data / "classes.txt").write_text("sea\nisland\n")
    with pytest.raises(ValueError, match="has the classes"):
        evaluate_segmenter(run.folder, str(data))
    with pytest.raises(ValueError, match="held out no test images"):
        evaluate_segmenter(run.folder, split="test")
