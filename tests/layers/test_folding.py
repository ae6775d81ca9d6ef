"""A folded network computes the same, keeps its state dict, and can be copied, loaded and unfrozen."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from spectral_vmamba.layers.folding import FoldedConv, fold_norms
from spectral_vmamba.models._timm import timm
from tests.support.tolerances import assert_relatively_close


def network(name):
    torch.manual_seed(0)
    made = timm.create_model(name, features_only=True).eval()
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias)
    return made


@pytest.mark.parametrize("name", ["resnet18", "tf_efficientnet_lite0", "mobilenetv3_small_050"])
def test_folding_keeps_maps_and_state_dict(name):
    plain = network(name).double()
    folded = deepcopy(plain)
    fold_norms(folded, (1, 3, 64, 64))
    assert sum(isinstance(module, FoldedConv) for module in folded.modules()) >= 20
    assert folded.state_dict().keys() == plain.state_dict().keys()
    images = torch.randn(2, 3, 70, 90, dtype=torch.float64)
    for a, b in zip(plain(images), folded(images), strict=True):
        assert_relatively_close(b, a, 4e-14)  # measured: 4.7e-15


def test_a_copy_has_its_own_weights():
    folded = network("resnet18")
    fold_norms(folded, (1, 3, 64, 64))
    images = torch.randn(1, 3, 64, 64)
    copy = deepcopy(folded)
    expected = folded(images)[-1]
    with torch.no_grad():
        for parameter in copy.parameters():
            parameter.zero_()
    assert torch.equal(folded(images)[-1], expected)
    assert not copy(images)[-1].any()
    copy.load_state_dict(folded.state_dict())
    assert torch.equal(copy(images)[-1], expected)


def test_gradients_reach_convolution_and_norm():
    body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
    plain = deepcopy(body)
    fold_norms(body, (1, 3, 8, 8))
    images = torch.randn(2, 3, 8, 8)
    for made in (plain, body):
        made(images).square().sum().backward()
    for a, b in zip(plain.parameters(), body.parameters(), strict=True):
        assert_relatively_close(b.grad, a.grad, 2e-6)  # measured: 2.0e-7


class ReadTwice(nn.Module):
    """The output of the convolution is used twice."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 1), shifting_norm(3)

    def forward(self, x):
        x = self.conv(x)
        return x + self.norm(x)


def shifting_norm(channels):
    norm = nn.BatchNorm2d(channels)
    nn.init.constant_(norm.bias, 0.3)
    norm.running_mean.fill_(0.7)
    return norm


def used_twice():
    conv = nn.Conv2d(3, 3, 1)
    return nn.Sequential(conv, shifting_norm(3), conv)


def norm_used_twice():
    norm = shifting_norm(3)
    return nn.Sequential(nn.Conv2d(3, 3, 1), norm, nn.ReLU(), norm)


def in_place_between():
    return nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU(inplace=True), shifting_norm(3))


@pytest.mark.parametrize("make", [ReadTwice, used_twice, norm_used_twice, in_place_between])
def test_networks_that_cannot_be_folded_are_unchanged(make):
    torch.manual_seed(0)
    body = make().eval()
    images = torch.randn(2, 3, 8, 8)
    expected = body(images.clone())
    fold_norms(body, (1, 3, 8, 8))
    assert torch.equal(body(images.clone()), expected)
    assert not any(isinstance(module, FoldedConv) for module in body.modules())


@pytest.mark.parametrize("make", [ReadTwice, used_twice, lambda: network("resnet18")])
def test_the_same_modules_are_folded_on_the_meta_device(make):
    def folded(body):
        fold_norms(body, (1, 3, 64, 64))
        return [name for name, module in body.named_modules() if isinstance(module, FoldedConv)]

    expected = folded(make().eval())
    with torch.device("meta"):
        assert folded(make().eval()) == expected


class ReturnsBoth(ReadTwice):
    def forward(self, x):
        x = self.conv(x)
        return x, self.norm(x)


def test_a_convolution_whose_output_is_returned_is_not_folded():
    body = ReturnsBoth().eval()
    fold_norms(body, (1, 3, 8, 8))
    assert type(body.conv) is nn.Conv2d


def test_sync_batch_norm_ignores_folded_norms():
    folded = network("resnet18")
    fold_norms(folded, (1, 3, 64, 64))
    images = torch.randn(1, 3, 64, 64)
    expected = folded(images)[-1]
    assert torch.equal(nn.SyncBatchNorm.convert_sync_batchnorm(folded)(images)[-1], expected)
