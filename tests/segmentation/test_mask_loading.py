"""From stored pairs to batches: views are a function of (seed, epoch, image), whichever process makes them."""

import numpy as np
import pytest
import torch

from spectral_vmamba.data.order import ViewIndex
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.segmentation.augmentation import MaskAugmentation
from spectral_vmamba.segmentation.mask_loading import (
    MaskedSample,
    TrainPairs,
    collate_pairs,
    eval_pairs,
    train_pair_batches,
)
from tests.support.masked_folders import random_image, random_mask, read_folder, write_image

TRANSFORM = MaskAugmentation(rotation=20.0, quarter_turns=True).train_transform(16, 255)


@pytest.fixture
def dataset(tmp_path):
    return read_folder(tmp_path, count=6)


def keys(*images: int, epoch: int = 0) -> list[ViewIndex]:
    return [ViewIndex(epoch, image) for image in images]


@pytest.mark.parametrize("workers", [1, 2])
def test_worker_processes_change_nothing(dataset, workers):
    batches = [keys(0, 1, 2), keys(3, 4), keys(5, epoch=1)]
    alone, shared = (list(train_pair_batches(dataset, TRANSFORM, 7, batches, count)) for count in (0, workers))
    for a, b in zip(alone, shared, strict=True):
        assert torch.equal(a.inputs, b.inputs)
        assert torch.equal(a.masks, b.masks)
        assert a.indices == b.indices
    assert [len(batch) for batch in alone] == [3, 2, 1]
    assert alone[0].inputs.shape == (3, 3, 16, 16)
    assert alone[0].masks.shape == (3, 16, 16)
    assert (alone[0].inputs.dtype, alone[0].masks.dtype) == (torch.uint8, torch.uint8)


def test_epochs_and_seeds_show_different_views(dataset):
    first, again = (TrainPairs(dataset, TRANSFORM, 0)[ViewIndex(0, 3)].pixels for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, TrainPairs(dataset, TRANSFORM, 0)[ViewIndex(1, 3)].pixels)
    assert not torch.equal(first, TrainPairs(dataset, TRANSFORM, 1)[ViewIndex(0, 3)].pixels)


def test_an_unreadable_pair_is_replaced_by_the_next(tmp_path, dataset):
    (tmp_path / "images" / "01.png").write_bytes(b"damaged")
    write_image(tmp_path / "masks" / "02.png", random_mask(2, 3, 5, 5))
    write_image(tmp_path / "masks" / "05.png", np.full((10, 12), 77, np.uint8))
    (batch,) = train_pair_batches(dataset, TRANSFORM, 0, [keys(1, 5, 4)], workers=0)
    assert batch.indices == [3, 0, 4]
    assert [(error.index, error.name) for error in batch.unreadable] == [
        (1, "images/01.png"),
        (2, "images/02.png"),
        (5, "images/05.png"),
    ]
    reasons = ("cannot be read as an image", "has 5×5 pixels and the image 12×10", "has the class id 77")
    for error, reason in zip(batch.unreadable, reasons, strict=True):
        assert reason in error.reason
    direct = TrainPairs(dataset, TRANSFORM, 0)[ViewIndex(0, 3)]
    assert torch.equal(batch.inputs[0], direct.pixels), "the replacement is its own view"


def test_training_without_a_readable_pair_names_the_reason(tmp_path, dataset):
    for path in (tmp_path / "masks").iterdir():
        write_image(path, np.zeros((2, 2, 3), np.uint8))
    with pytest.raises(ValueError, match=r"none of the 6 images can be used .*02\.png is an RGB mask"):
        TrainPairs(dataset, TRANSFORM, 0)[ViewIndex(0, 2)]


def test_errors_in_the_transform_are_not_read_errors(dataset):
    def failing_transform(image, mask):
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        TrainPairs(dataset, failing_transform, 0)[ViewIndex(0, 0)]


@pytest.mark.parametrize("workers", [0, 2])
def test_evaluation_sees_whole_images_in_order(tmp_path, dataset, workers):
    write_image(tmp_path / "images" / "01.png", random_image(1, 30, 20))
    write_image(tmp_path / "masks" / "01.png", random_mask(1, 3, 30, 20))
    (tmp_path / "masks" / "03.png").unlink()
    pairs = list(eval_pairs(dataset, workers))
    assert [pair.index for pair in pairs] == [0, 1, 2, 3, 4, 5]
    assert isinstance(pairs[3], ReadError)
    assert (pairs[3].name, "03.png" in pairs[3].reason) == ("images/03.png", True)
    second = pairs[1]
    assert isinstance(second, MaskedSample)
    assert np.array_equal(second.pixels.permute(1, 2, 0), random_image(1, 30, 20))
    assert np.array_equal(second.mask, random_mask(1, 3, 30, 20))


def test_processes_share_the_images_of_an_evaluation(dataset):
    shares = [[pair.index for pair in eval_pairs(dataset, 0, rank, 4)] for rank in range(4)]
    assert shares == [[0, 4], [1, 5], [2], [3]]


def test_an_empty_share_is_an_empty_batch():
    batch = collate_pairs([])
    assert (len(batch), batch.inputs.shape, batch.masks.shape) == (0, (0, 3, 0, 0), (0, 0, 0))
