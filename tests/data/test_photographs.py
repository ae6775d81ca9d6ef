"""The photographs that ship with other packages."""

import torch

from spectral_vmamba.data import photograph_crops, photographs


def test_there_are_18_color_photographs():
    images = photographs()
    assert len(images) == 18
    assert all(p.shape[0] == 3 and p.dtype is torch.uint8 and p.float().std() > 5 for p in images.values())


def test_crops_are_seeded_and_cover_all_photographs():
    crops = photograph_crops(20, (97, 131), seed=3)
    assert crops.shape == (20, 3, 97, 131)
    assert torch.equal(crops, photograph_crops(20, (97, 131), seed=3))
    assert not torch.equal(crops, photograph_crops(20, (97, 131), seed=4))
    assert photograph_crops(18, 600).shape == (18, 3, 600, 600)
