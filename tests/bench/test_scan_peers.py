"""Whoever is timed against the scan computes the scan."""

import pytest
import torch

from spectral_vmamba.bench import scan_peers
from spectral_vmamba.ops.selective_scan import selective_scan
from tests.support.scan_inputs import NAMES, leaves, scan_inputs

PEERS = {"torch loop": scan_peers.torch_loop, "HF slow path": scan_peers.slow_path, "mambapy": scan_peers.mambapy_scan}
SIZES = [{"l": 9, "d": 5, "k": 4, "g": 4}, {"l": 16, "d": 3, "k": 4, "g": 2}, {"l": 7, "d": 4, "k": 8, "g": 8, "n": 3}]


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_peer_equals_reference(name, sizes):
    if name == "mambapy":
        pytest.importorskip("mambapy.pscan")
    tensors, orders = scan_inputs(**sizes)
    mine, theirs = leaves(tensors), leaves(tensors)
    expected = selective_scan(*mine, orders, backend="reference")
    found = PEERS[name](*theirs, orders)
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(expected)
    pairs = zip(torch.autograd.grad(found, theirs, weights), torch.autograd.grad(expected, mine, weights), strict=True)
    for label, (gradient, wanted) in zip(NAMES, pairs, strict=True):
        torch.testing.assert_close(gradient, wanted, msg=lambda text, label=label: f"{label}: {text}")


def test_missing_mambapy_is_one_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mambapy.pscan", None)
    peers, notices = scan_peers.available_peers()
    assert set(peers) == {"torch loop", "HF slow path"}
    assert len(notices) == 1
    assert "pip install" in notices[0]
