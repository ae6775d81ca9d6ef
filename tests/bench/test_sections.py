"""What the sections measure is what they say."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from spectral_vmamba.bench import eigen_peers, memory_probe
from spectral_vmamba.bench.eigenvectors import PEERS, photograph_features
from spectral_vmamba.bench.model import PARTS, measure_shares
from spectral_vmamba.bench.models import measure_models, plot_models, show_models
from spectral_vmamba.bench.replay import record_products, replay
from spectral_vmamba.bench.scan import LARGEST_BYTES, LIVE_COPIES, PASSES, PATHS, fitting_batch
from spectral_vmamba.bench.settings import Settings
from spectral_vmamba.layers import s6 as s6_module
from spectral_vmamba.ops.spectral import affinity, normalized_laplacian


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def laplacian():
    return eigen_peers.normalized_laplacian(csr_array(affinity(photograph_features(64, 1, 0).double(), 5)[0].numpy()))


def test_sparse_laplacian_is_ours(laplacian):
    expected, _ = normalized_laplacian(affinity(photograph_features(64, 1, 0).double(), 5))
    np.testing.assert_allclose(laplacian.toarray(), expected[0].numpy(), atol=1e-15)


@pytest.mark.parametrize("name", PEERS)
def test_eigensolvers_agree(name, laplacian):
    found, exact = PEERS[name][0](laplacian, 7)(), np.linalg.eigh(laplacian.toarray())[1][:, :7]
    assert eigen_peers.largest_residual(laplacian, found) < 1e-11
    for count in (1, 5, 7):  # ascending
        assert eigen_peers.principal_angle(exact[:, :count], found[:, :count]) < 1e-8


def test_principal_angle():
    plane, tilted = np.eye(3)[:, :2], np.array([[1, 0], [0, np.cos(0.3)], [0, np.sin(0.3)]])
    assert eigen_peers.principal_angle(plane, tilted) == pytest.approx(0.3)


def test_batch_shrinks_to_fit():
    assert fitting_batch(196, 512) == 8
    batch = fitting_batch(3136, 2048)
    assert 1 <= batch < 8
    assert 4 * LIVE_COPIES * batch * PATHS * 3136 * 2048 <= LARGEST_BYTES


def test_shares_cover_the_forward():
    shares = measure_shares("spectral_vmamba_nano", 2, 32, 0)
    assert sum(shares.share(part) for part in PARTS) == pytest.approx(1)
    assert all(shares.milliseconds[part] > 0 for part in PARTS)
    assert 0 < shares.sts_share < 1
    total = sum(shares.milliseconds.values())
    assert 0.5 * shares.unprofiled_milliseconds < total < 20 * shares.unprofiled_milliseconds


def test_probe_sees_an_allocation():
    """In a process of its own: this one may have used more memory before."""
    code = """if True:
        import torch
        from spectral_vmamba.bench.memory_probe import growth_of
        print(growth_of(lambda: torch.ones(2**24)))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0.95 < int(done.stdout) / 2**26 < 1.2


def test_probe_replaces_the_mixers_scan(monkeypatch):
    monkeypatch.setattr(s6_module, "selective_scan", s6_module.selective_scan)  # restored afterwards
    memory_probe._mixer_step("HF slow path", 1, 3, 16)()
    monkeypatch.setattr(memory_probe, "S6Mixer", lambda *_, **__: lambda x, traversal: x)
    with pytest.raises(RuntimeError, match="did not call"):
        memory_probe._mixer_step("torch loop", 1, 3, 16)


def test_replay_knows_every_product():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Flatten(), torch.nn.Linear(8 * 16, 5))
    images = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    calls = record_products(model, images)
    assert sorted(call.name for call in calls) == ["addmm", "convolution"]
    assert next(c for c in calls if c.name == "convolution").arguments[0].strides == images.stride()
    found = replay(calls, lambda items, _: items)
    assert found.flops == 2 * (2 * 16 * 8 * 27 + 2 * 128 * 5)
    assert found.calls == 2
    assert found.seconds > 0


def test_models_against_the_peer_and_the_textbook():
    result = measure_models(Settings(quick=True, threads=1), lambda items, _: items)
    assert {speed.direction for speed in result.speeds} == set(PASSES)
    assert all(not speed.comparison.failures for speed in result.speeds)
    assert all(speed.comparison.ratio(result.peer, speed.name) > 0 for speed in result.speeds)
    (comparison,) = result.fused.values()
    assert comparison.timings["textbook"].difference < 1e-4
    shown = show_models(result)
    assert "textbook" in shown[-1]
    assert len(plot_models(result).axes[0].patches) == 2 * len({speed.name for speed in result.speeds})
