"""What the registered names stand for, beside sizes: their drop path, and which of them are made for CPUs."""

import pytest
import torch

import spectral_vmamba
from spectral_vmamba.models.variants import is_cpu_scale
from tests.support.models import build, drop_paths, is_isotropic, shape

# As published; names that are not here have none.
DROP_PATH = {
    "spectral_vmamba_tiny": 0.2,
    "spectral_vmamba_small": 0.6,
    "spectral_vmamba_base": 0.3,
    "vmamba_rfn_tiny": 0.2,
    "spectral_vmamba_no_rfn_tiny": 0.2,
    "spectral_vmamba_random_tiny": 0.2,
    "vmamba_tiny": 0.2,
    "vmamba_small": 0.3,
    "vmamba_base": 0.6,
    "vim_small": 0.05,
    "local_vim_tiny": 0.1,
    "local_vim_small": 0.1,
    "msvmamba_nano": 0.2,
    "msvmamba_micro": 0.2,
    "msvmamba_tiny": 0.2,
}


@pytest.mark.parametrize("name", spectral_vmamba.list_models())
def test_drop_path_is_the_published_one(name):
    with torch.device("meta"):
        rates = drop_paths(build(name))
    torch.testing.assert_close(torch.tensor(rates), torch.linspace(0, DROP_PATH.get(name, 0.0), len(rates)))


def test_every_family_has_a_network_for_cpus():
    small = {name for name in spectral_vmamba.list_models() if is_cpu_scale(name)}
    ablations = {"vmamba_rfn_nano", "spectral_vmamba_no_rfn_nano", "spectral_vmamba_random_nano"}
    families = {"spectral_vmamba_nano", "vmamba_nano", "vim_nano", "local_vim_nano", "msvmamba_pico"}
    assert small == ablations | families | {"spectral_vmamba_lite"}
    with torch.device("meta"):
        for name in ablations | families:
            assert sum(p.numel() for p in build(name, num_classes=10).parameters()) < 1.2e6


@pytest.mark.parametrize("name", [name for name in spectral_vmamba.list_models() if is_isotropic(name)])
def test_isotropic_networks_give_their_last_three_maps(name):
    with torch.device("meta"):
        whole, features = build(name), build(name, features_only=True)
    assert features.out_indices == list(range(len(whole.blocks)))[-3:]
    with torch.device("meta"):
        assert build(name, **{**shape(name), "depth": 2, "features_only": True}).out_indices == [0, 1]
