"""Every peer of the scan benchmark computes the scan."""

import sys
from functools import partial

import pytest
import torch

from benchmarks.suite import scan_peers
from spectral_vmamba.ops.selective_scan import ScanInputs, selective_scan
from tests.support.scan_inputs import NAMES, leaves, scan_inputs

PEERS = {"torch loop": scan_peers.torch_loop, "HF slow path": scan_peers.slow_path, "mambapy": scan_peers.mambapy_scan}
# float64; measured: 5.3e-15 absolute in the output, 3.5e-16 of the largest entry in the gradients
TOLERANCES = {"rtol": 1e-14, "atol": 3e-14}
SIZES = [{"l": 9, "d": 5, "k": 4, "g": 4}, {"l": 16, "d": 3, "k": 4, "g": 2}, {"l": 7, "d": 4, "k": 8, "g": 8, "n": 3}]


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_peer_equals_reference(name, sizes):
    if name == "mambapy":
        pytest.importorskip("mambapy.pscan")
    tensors, orders = scan_inputs(**sizes)
    our_leaves, peer_leaves = leaves(tensors), leaves(tensors)
    expected = selective_scan(*our_leaves, orders, backend="reference")
    answer = PEERS[name](ScanInputs(*peer_leaves, orders))
    torch.testing.assert_close(answer, expected, **TOLERANCES)
    weights = torch.randn_like(expected)
    gradients = torch.autograd.grad(answer, peer_leaves, weights)
    expected_gradients = torch.autograd.grad(expected, our_leaves, weights)
    for label, gradient, wanted in zip(NAMES, gradients, expected_gradients, strict=True):
        message = partial("{}: {}".format, label)
        torch.testing.assert_close(gradient, wanted, **TOLERANCES, msg=message)


def test_missing_mambapy_is_one_notice(monkeypatch):
    monkeypatch.setitem(sys.modules, "mambapy.pscan", None)
    peers, notices = scan_peers.available_peers()
    assert set(peers) == {"torch loop", "HF slow path"}
    assert len(notices) == 1
    assert "pip install" in notices[0]
