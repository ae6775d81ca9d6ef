"""Padding, the convolutional stem, frozen stems."""

import pytest
import torch
from torch import nn

from spectral_vmamba.layers import ConvStem, PretrainedStem, pad_to_patches


@pytest.mark.parametrize(
    ("size", "padded"), [((32, 32), (32, 32)), ((97, 131), (112, 144)), ((1, 1), (16, 16))], ids=str
)
def test_padding_is_even_and_zero(size, padded):
    images = torch.ones(1, 2, *size)
    out = pad_to_patches(images, 16)
    assert out.shape[-2:] == padded
    assert out.sum() == images.sum()
    rows = out[0, 0].sum(1).nonzero().flatten()
    assert abs(int(rows[0]) - (padded[0] - 1 - int(rows[-1]))) <= 1


@pytest.mark.parametrize("patch", [2, 4, 16])
def test_conv_stem_shape(patch):
    assert ConvStem(3, 20, patch)(torch.randn(2, 3, 32, 48)).shape == (2, 20, 32 // patch, 48 // patch)


@pytest.mark.parametrize("patch", [0, 1, 3, 12])
def test_the_conv_stem_requires_powers_of_two(patch):
    with pytest.raises(ValueError, match="power of two"):
        ConvStem(3, 20, patch)


def test_the_conv_stem_does_not_depend_on_the_batch_in_training():
    stem = ConvStem(3, 8, 4).train()
    images = torch.randn(4, 3, 16, 16)
    torch.testing.assert_close(stem(images)[2:3], stem(images[2:3]), rtol=0, atol=7e-6)  # measured: 7.2e-7


def test_a_frozen_stem_keeps_parameters_and_statistics():
    body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    outer = nn.Sequential(PretrainedStem(body, 4), nn.Conv2d(4, 2, 1))
    outer.train()
    before = body[1].running_mean.clone()
    outer(torch.randn(8, 3, 9, 9) + 5).sum().backward()
    assert not body[1].training
    assert torch.equal(body[1].running_mean, before)
    assert all(p.grad is None and not p.requires_grad for p in body.parameters())
    assert outer[1].weight.grad is not None
    assert outer[1].training


def test_a_trained_stem_gets_gradients_and_keeps_statistics():
    body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    stem = PretrainedStem(body, 4, frozen=False).train()
    before, images = body[1].running_mean.clone(), torch.randn(8, 3, 9, 9) + 5
    maps = stem(images)
    (maps**2).sum().backward()
    assert not body[1].training
    assert torch.equal(body[1].running_mean, before)
    assert all(p.requires_grad and p.grad is not None and p.grad.any() for p in body.parameters())
    torch.testing.assert_close(maps[2:3], stem(images[2:3]))
