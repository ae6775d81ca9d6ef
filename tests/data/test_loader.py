"""From stored images to batches: views are a function of (seed, epoch, image), whichever process makes them."""

from functools import partial

import numpy as np
import pytest
import torch

from spectral_vmamba.data.dataset import UNLABELED
from spectral_vmamba.data.loader import (
    EvalSamples,
    Sample,
    TrainSamples,
    default_workers,
    eval_batches,
    load_batches,
    load_sample,
    split_into_batches,
)
from spectral_vmamba.data.order import ViewIndex
from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.data.transforms import Augmentation, Preprocessing
from spectral_vmamba.data.unreadable import ReadError
from tests.support.storages import log_reads, make_unreadable

INPUT = Preprocessing(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
STRONG = Augmentation(rotation=45.0)


def train_samples(dataset, seed=0, view_count=0) -> TrainSamples:
    return TrainSamples(dataset, STRONG.train_transform(INPUT), seed, view_count)


def train_pixels(dataset, epoch, image, **options):
    return train_samples(dataset, **options)[ViewIndex(epoch, image)].view.pixels


@pytest.fixture(scope="module")
def digits():
    return read_digits()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("view_count", [0, 2])
def test_worker_processes_change_nothing(digits, workers, view_count):
    samples = train_samples(digits, view_count=view_count)
    batches = [[ViewIndex(1, i) for i in range(5)], [ViewIndex(1, i) for i in range(5, 9)]]
    alone = list(load_batches(samples, batches, workers=0))
    shared = list(load_batches(samples, batches, workers=workers))
    for a, b in zip(alone, shared, strict=True):
        assert torch.equal(a.inputs, b.inputs)
        assert torch.equal(a.labels, b.labels)
        assert a.indices == b.indices


def test_epochs_and_seeds_show_different_views(digits):
    first, again = (train_pixels(digits, 0, 7) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, train_pixels(digits, 1, 7))
    assert not torch.equal(first, train_pixels(digits, 0, 7, seed=1))


def test_numbered_views_repeat_and_depend_on_the_content_alone(digits):
    first = train_pixels(digits, 0, 7, view_count=3)
    assert torch.equal(first, train_pixels(digits, 3, 7, view_count=3))
    assert torch.equal(first, train_pixels(digits, 0, 7, view_count=5, seed=1))
    assert not torch.equal(first, train_pixels(digits, 1, 7, view_count=3))
    assert torch.equal(first, train_pixels(digits.subset(np.array([1, 7])), 0, 1, view_count=3)), "at another index"
    assert not torch.equal(train_pixels(digits, 0, 8, view_count=3), first)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("view_count", [0, 2])
def test_training_reads_an_image_once_per_sample(digits, tmp_path, workers, view_count):
    dataset, storage = log_reads(digits.subset(np.arange(6)), tmp_path / "log")
    keys = [[ViewIndex(epoch, i) for i in range(6)] for epoch in range(3)]
    assert len(list(load_batches(train_samples(dataset, view_count=view_count), keys, workers))) == 3
    assert storage.take_counts() == dict.fromkeys(range(6), 3)


@pytest.mark.parametrize("workers", [0, 2])
def test_evaluation_reads_an_image_once(digits, tmp_path, workers):
    dataset, storage = log_reads(digits.subset(np.arange(6)), tmp_path / "log")
    assert sum(map(len, eval_batches(dataset, INPUT.eval_transform(), 4, workers))) == 6
    assert storage.take_counts() == dict.fromkeys(range(6), 1)


@pytest.mark.parametrize("view_count", [0, 2])
def test_unreadable_image_is_replaced_by_the_next(digits, view_count):
    dataset = make_unreadable(digits.subset(np.arange(6)), 1, 3, 5)
    keys = [[ViewIndex(0, 1), ViewIndex(0, 2), ViewIndex(0, 5)]]
    (batch,) = load_batches(train_samples(dataset, view_count=view_count), keys, workers=0)
    assert batch.indices == [2, 2, 0]
    assert batch.labels.tolist() == dataset.labels[[2, 2, 0]].tolist()
    assert batch.unreadable == [ReadError(i, f"digits#{i}", f"image {i} is damaged") for i in (1, 5)]


def test_training_without_a_readable_image_fails(digits):
    dataset = make_unreadable(digits.subset(np.arange(2)), 0, 1)
    with pytest.raises(ValueError, match="none of the 2 images can be read, for example digits#0"):
        train_samples(dataset)[ViewIndex(0, 0)]


def test_evaluation_leaves_unreadable_images_out(digits):
    samples = EvalSamples(make_unreadable(digits.subset(np.arange(6)), 1, 3, 5), INPUT.eval_transform())
    (batch,) = load_batches(samples, split_into_batches(6, 6), workers=0)
    assert batch.indices == [0, 2, 4]
    assert [error.index for error in batch.unreadable] == [1, 3, 5]
    assert batch.inputs.dtype == torch.uint8
    assert batch.sizes == [(8, 8)] * 3
    assert batch.pose.own.tolist() == [0] * 3
    assert batch.pose.is_exact
    (empty,) = load_batches(samples, [[1, 3]], workers=0)
    assert (len(empty), empty.indices, len(empty.unreadable)) == (0, [], 2)


def test_load_sample_returns_the_sample_or_the_error(digits):
    transform = INPUT.eval_transform()
    sample = load_sample(partial(digits.open, 3), transform, 3, "three")
    assert isinstance(sample, Sample)
    assert (sample.index, sample.label, sample.width, sample.height) == (3, UNLABELED, 8, 8)

    def fail():
        raise OSError("disk\n  on fire")

    assert load_sample(fail, transform, 3, "three") == ReadError(3, "three", "disk on fire")


def test_errors_in_the_transform_are_not_read_errors(digits):
    def failing_transform(image):
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        load_sample(partial(digits.open, 3), failing_transform, 3, "three")


@pytest.mark.parametrize(("count", "size", "world_size"), [(10, 4, 1), (10, 4, 2), (0, 4, 2), (3, 4, 2)])
def test_processes_share_the_batches(count, size, world_size):
    shares = [split_into_batches(count, size, rank, world_size) for rank in range(world_size)]
    assert sorted(i for share in shares for batch in share for i in batch) == list(range(count))
    assert all(len(batch) <= size for share in shares for batch in share)


def test_default_workers(monkeypatch):
    for cores, world_size, expected in ((1, 1, 1), (4, 1, 4), (64, 1, 8), (4, 2, 2), (2, 8, 1), (None, 1, 1)):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        assert default_workers(world_size) == expected


def test_batch_sizes_and_workers_are_checked():
    with pytest.raises(ValueError, match="expected batch_size of at least 1, got 0"):
        split_into_batches(3, 0)
    with pytest.raises(ValueError, match="expected workers of at least 0, got -1"):
        load_batches([], [], -1)
