"""Logits of a whole dataset, in one process or shared."""

import numpy as np
import pytest
import torch

from spectral_vmamba.data.loader import eval_batches
from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.inference.logits import compute_logits
from tests.support.storages import make_unreadable

TRANSFORM = Preprocessing(8, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)).eval_transform()
CPU = torch.device("cpu")


@pytest.fixture
def model():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64, 10), torch.nn.Dropout())


def logits(model, dataset, rank=0, world_size=1, reduce=lambda partial: partial):
    batches = eval_batches(dataset, TRANSFORM, 4, 0, rank, world_size)
    return compute_logits(model, dataset, batches, lambda batch: batch.inputs.float(), CPU, reduce)


def test_logits_are_in_the_order_of_the_dataset(model):
    dataset = read_digits().subset(np.arange(10))
    model.train()
    outputs = logits(model, dataset)
    assert model.training, "the mode is restored"
    pixels = torch.stack([TRANSFORM(dataset.open(i)).pixels for i in range(10)]).float()
    with torch.no_grad():
        assert torch.equal(outputs.logits, torch.cat([model.eval()(part) for part in pixels.split(4)]))
    assert outputs.labels.tolist() == dataset.labels.tolist()


def test_the_shares_of_two_processes_add_up(model):
    """Each process knows the errors of its own batches."""
    dataset = make_unreadable(read_digits().subset(np.arange(10)), 1, 5)
    whole = logits(model, dataset)
    partial = {rank: [] for rank in (0, 1)}
    for rank in (0, 1):
        logits(model, dataset, rank, 2, lambda value, rank=rank: partial[rank].append(value) or value)
    for rank in (0, 1):
        sums = iter([one + other for one, other in zip(partial[0], partial[1], strict=True)])
        outputs = logits(model, dataset, rank, 2, lambda value, sums=sums: next(sums))
        assert torch.equal(outputs.logits, whole.logits)
        assert torch.equal(outputs.labels, whole.labels)
        known, unknown = (1, 5) if rank == 0 else (5, 1)
        reasons = {error.index: error.reason for error in outputs.unreadable}
        assert reasons == {known: f"image {known} is damaged", unknown: "another process could not read it"}
    assert whole.unreadable == [ReadError(i, f"digits#{i}", f"image {i} is damaged") for i in (1, 5)]


def test_an_error_restores_the_mode_too(model):
    dataset = read_digits().subset(np.arange(2))
    model.train()
    with pytest.raises(RuntimeError):
        compute_logits(model, dataset, eval_batches(dataset, TRANSFORM, 4, 0), lambda batch: torch.zeros(1, 2), CPU)
    assert model.training
