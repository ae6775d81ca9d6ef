"""Names of devices."""

import pytest
import torch

from spectral_vmamba.utils.devices import resolve_device


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"),
    [(False, False, "cpu"), (True, False, "cuda"), (False, True, "mps"), (True, True, "cuda")],
)
def test_auto_is_a_gpu_where_there_is_one(monkeypatch, cuda, mps, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert resolve_device("auto") == torch.device(expected)


def test_devices_by_name_number_and_object(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device("cpu") == resolve_device(torch.device("cpu")) == torch.device("cpu")
    assert resolve_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ValueError, match="cuda:2 is not available: torch finds 2, numbered from 0"):
        resolve_device("cuda:2")


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize("name", ["cuda", "mps"])
def test_a_missing_gpu_is_explained(monkeypatch, name, built):
    backend = getattr(torch.backends, name)
    monkeypatch.setattr(backend, "is_built", lambda: built)
    monkeypatch.setattr(torch.cuda if name == "cuda" else backend, "is_available", lambda: False)
    reason = "finds no such GPU" if built else f"was built without {name}"
    with pytest.raises(ValueError, match=rf"the device {name} is not available: torch .* {reason}; use cpu or auto"):
        resolve_device(name)


@pytest.mark.parametrize("name", ["gpu", "meta", "", "cuda:x"])
def test_other_names_are_errors(name):
    with pytest.raises(ValueError, match="expected the device auto, cpu, cuda or mps, got"):
        resolve_device(name)
