"""Registered names: what they stand for, and how unknown ones are answered."""

import pytest
import torch

import spectral_vmamba
from spectral_vmamba.models import FAMILIES, SpectralVMamba, VMamba, find_family, is_cpu_scale, is_spectral, timm
from spectral_vmamba.models.isotropic import IsotropicBackbone
from spectral_vmamba.models.network_config import NetworkConfig
from tests.support.models import build, count_parameters, drop_path_rates, is_isotropic, small_options

# As published; 0 for all other names.
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
INVARIANT = {f"spectral_vmamba_{size}" for size in ("nano", "lite", "tiny", "small", "base")}


@pytest.mark.parametrize("name", spectral_vmamba.list_models())
def test_drop_path_is_the_published_one(name):
    with torch.device("meta"):
        rates = drop_path_rates(build(name))
    torch.testing.assert_close(
        torch.tensor(rates), torch.linspace(0, DROP_PATH.get(name.removesuffix("_published"), 0.0), len(rates))
    )


@pytest.mark.parametrize("name", spectral_vmamba.list_models())
def test_family_config_is_that_of_the_built_network(name):
    family = find_family(name)
    with torch.device("meta"):
        model = timm.create_model(name, **({"stem_weights": "none"} if is_spectral(name) else {}))
    assert type(model) is family.network
    changed = {"stem_weights": None} if is_spectral(name) else {}
    config: NetworkConfig = family.config(name, num_classes=3, **changed)
    assert config == model.config
    assert config.is_quarter_turn_invariant == (name in INVARIANT)


def test_families_are_found_by_name():
    assert find_family("spectral_vmamba_no_rfn_tiny").network is SpectralVMamba
    assert find_family("vmamba_rfn_nano").network is SpectralVMamba
    assert find_family("vmamba_nano.untrained").network is VMamba
    assert issubclass(find_family("vim_small").network, IsotropicBackbone)
    assert find_family("resnet18") is None
    assert is_spectral("spectral_vmamba_lite")
    assert not is_spectral("vmamba_tiny")
    assert not is_spectral("resnet18")
    assert [family.title for family in FAMILIES] == ["Spectral VMamba", "VMamba", "Vim", "LocalVim", "MSVMamba"]


def test_every_family_has_a_network_for_cpus():
    small = {name for name in spectral_vmamba.list_models() if is_cpu_scale(name)}
    ablations = {
        "vmamba_rfn_nano",
        "spectral_vmamba_no_rfn_nano",
        "spectral_vmamba_random_nano",
        "spectral_vmamba_nano_published",
    }
    families = {"spectral_vmamba_nano", "vmamba_nano", "vim_nano", "local_vim_nano", "msvmamba_pico"}
    assert small == ablations | families | {"spectral_vmamba_lite"}
    with torch.device("meta"):
        for name in ablations | families:
            assert count_parameters(build(name, num_classes=10)) < 1.2e6


@pytest.mark.parametrize("name", [name for name in spectral_vmamba.list_models() if is_isotropic(name)])
def test_isotropic_networks_return_their_last_three_maps(name):
    with torch.device("meta"):
        whole, features = build(name), build(name, features_only=True)
    assert features.out_indices == list(range(len(whole.blocks)))[-3:]
    with torch.device("meta"):
        assert build(name, **{**small_options(name), "depth": 2, "features_only": True}).out_indices == [0, 1]


def test_unknown_names_are_answered_with_close_ones():
    with pytest.raises(ValueError, match="spectral_vmamba_nano"):
        spectral_vmamba.create_model("spectral_vmamba_nanno")


@pytest.mark.parametrize("query", ["vmamba_smal", "VMamba-Smal", "resnet-19", "Spectral-VMamba-Nano"])
def test_close_names_are_listed_once(query):
    with pytest.raises(ValueError, match="close names") as error:
        spectral_vmamba.create_model(query)
    close = str(error.value).split("close names: ")[1].split(", ")
    assert len(close) == len(set(close)) > 1
    assert close[0] == {"v": "vmamba_small", "r": "resnet18", "s": "spectral_vmamba_nano"}[query[0].lower()]


def test_none_is_passed_on_and_timm_passes_the_string_none():
    ours = spectral_vmamba.create_model("spectral_vmamba_nano", neighbors=None, turns=1, local_mixing=None)
    timms = timm.create_model("spectral_vmamba_nano", neighbors="none", turns=1, local_mixing="none")
    assert ours.config == timms.config
    assert ours.config.neighbors is ours.config.local_mixing is None
