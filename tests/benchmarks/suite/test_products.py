import pytest
import torch

from benchmarks.suite.products import TensorSpec, record_products, replay_products
from spectral_vmamba.utils.progress import no_progress


def test_every_product_is_replayed(short_timing):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Flatten(), torch.nn.Linear(8 * 16, 5))
    images = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    calls = record_products(model, images)
    assert sorted(call.name for call in calls) == ["addmm", "convolution"]
    assert next(call for call in calls if call.name == "convolution").arguments[0].strides == images.stride()
    replay = replay_products(calls, no_progress)
    assert replay.flops == 2 * (2 * 16 * 8 * 27 + 2 * 128 * 5)
    assert replay.calls == 2
    milliseconds = sum(row[2] for row in replay.slowest)
    assert milliseconds == pytest.approx(1e3 * replay.seconds)


def test_random_tensor_has_the_same_layout():
    tensor = TensorSpec((2, 3, 4, 4), (48, 1, 12, 3), torch.float64).random_tensor()
    assert (tuple(tensor.shape), tensor.stride(), tensor.dtype) == ((2, 3, 4, 4), (48, 1, 12, 3), torch.float64)
    assert tensor.std() > 0.5
