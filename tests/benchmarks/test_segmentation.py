"""The parts of the comparison of segmentation networks that are not tested with the package."""

import numpy as np
import pytest
import torch

from benchmarks.mask_subsets import write_pairs
from benchmarks.segmentation import changed_by_quarter_turns, evenly_spaced, main
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.segmentation import Segmenter, create_segmenter
from spectral_vmamba.segmentation.readers import read_masked_source
from spectral_vmamba.utils.progress import no_progress
from tests.support.masked_folders import encode, random_image, random_mask, read_folder, write_pack

pytest.importorskip("segmentation_models_pytorch")


def segmenter(equivariant: bool) -> Segmenter:
    torch.manual_seed(0)
    model = create_segmenter("vmamba_nano", "unet", classes=3, equivariant=equivariant).eval()
    bias = model.get_parameter("network.segmentation_head.0.bias")
    with torch.no_grad():  # so that all classes occur
        bias -= model(torch.randn(4, 3, 10, 12)).mean((0, 2, 3))
    palette, preprocessing = ((0, 0, 0),) * 3, Preprocessing(32, (0.5,) * 3, (0.25,) * 3)
    return Segmenter("test", model, ("0", "1", "2"), palette, preprocessing, 64, torch.device("cpu"))


def test_pairs_are_the_same_in_a_pack(tmp_path):
    dataset = read_folder(tmp_path / "folder")
    (copy,) = read_masked_source(str(write_pairs(tmp_path / "copy.npz", dataset))).values()
    assert (copy.classes, copy.ignore_index) == (dataset.classes, dataset.ignore_index)
    for i in range(3):
        for ours, theirs in zip(copy.open(i), dataset.open(i), strict=True):
            assert np.array_equal(np.asarray(ours), np.asarray(theirs))


def test_evenly_spaced_images_include_both_ends(tmp_path):
    dataset = read_folder(tmp_path, 9)
    assert [*evenly_spaced(dataset, 3).names] == [dataset.names[i] for i in (0, 4, 8)]
    assert evenly_spaced(dataset, 9) is dataset


def test_quarter_turns_change_pixels_without_a_frame_only(tmp_path):
    dataset = read_folder(tmp_path)
    assert changed_by_quarter_turns(segmenter(equivariant=True), dataset, no_progress) == 0
    assert 0 < changed_by_quarter_turns(segmenter(equivariant=False), dataset, no_progress) < 1


@pytest.mark.full
def test_a_row_is_trained_evaluated_and_not_repeated(tmp_path):
    images = [encode(random_image(i, 32, 32)) for i in range(8)]
    masks = [encode(random_mask(i, 3, 32, 32)) for i in range(8)]
    write_pack(tmp_path / "pairs.npz", images, masks, split=np.array(["train"] * 4 + ["val"] * 4))
    arguments = [str(tmp_path / "pairs.npz"), "--output", str(tmp_path / "results"), "--networks", "VMamba nano, plain"]
    arguments += ["--trainings", "upright", "--epochs", "1", "--size", "32", "--step", "90", "--workers", "0"]
    (result,) = main(arguments)
    assert 0 < result.worst <= result.mean <= 1
    assert result.least_agreement <= result.mean_agreement <= 1
    assert main(arguments) == [result]
    assert "| VMamba nano, plain | upright |" in (tmp_path / "results" / "results.md").read_text()
