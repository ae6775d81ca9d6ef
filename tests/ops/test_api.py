"""The choice of the backend."""

import pytest
import torch

from spectral_vmamba.ops.native import Native
from spectral_vmamba.ops.selective_scan import api, missing_backends, resolve_backend, selective_scan
from tests.support.scan_inputs import leaves, scan_inputs


def test_the_environment_variable_replaces_auto(monkeypatch):
    monkeypatch.delenv("SPECTRAL_VMAMBA_BACKEND", raising=False)
    assert resolve_backend() == "auto"
    monkeypatch.setenv("SPECTRAL_VMAMBA_BACKEND", "reference")
    assert resolve_backend() == "reference"
    assert resolve_backend("portable") == "portable"
    tensors, orders = scan_inputs(l=3)
    inputs = leaves(tensors)
    (gradient,) = torch.autograd.grad(selective_scan(*inputs, orders).sum(), inputs[0], create_graph=True)
    assert gradient.requires_grad, "the op cannot be differentiated twice, the reference can"
    with pytest.raises(ValueError, match="expected one of"):
        resolve_backend("cuda")


def test_a_missing_backend_is_an_error_with_its_reason(monkeypatch):
    monkeypatch.setattr(api, "load_native", lambda: Native(None, "not built"))
    assert missing_backends() == {"native": "not built"}
    with pytest.raises(ValueError, match="backend 'native' is not available: not built"):
        resolve_backend("native")
    tensors, orders = scan_inputs()
    with pytest.raises(ValueError, match="not available"):
        selective_scan(*tensors, orders, backend="native")
