"""The shares of a forward: all of its time is counted, once, in the right part."""

import time
from itertools import count

import pytest
import torch

from benchmarks.suite.forward_profile import (
    PARTS,
    WHOLE,
    Shares,
    measure_shares,
    profile_forward,
    sum_parts,
    time_forward,
)
from benchmarks.suite.workloads import photograph_batch, seeded_model


@pytest.fixture(scope="module")
def network():
    return seeded_model("spectral_vmamba_nano", 0), photograph_batch(2, 32, 0)


def test_parts_sum_to_the_forward(network):
    """Every event is counted once. Measured difference: 1.3e-15."""
    with torch.no_grad():
        events = profile_forward(*network)
    (whole,) = [event for event in events if event.name == WHOLE]
    parts = sum_parts(events)
    assert sum(parts.values()) == pytest.approx(whole.cpu_time_total / 1e3, rel=1e-14)
    assert all(parts[part] > 0 for part in PARTS)


def slow_module(monkeypatch, module, method):
    function = getattr(module, method)

    def slow(*arguments):
        time.sleep(0.2)
        return function(*arguments)

    monkeypatch.setitem(vars(module), method, slow)


@pytest.mark.parametrize("part", ["RFN, stem", "STS", "MLP", "frame"])
def test_time_is_counted_in_its_part(part, network, monkeypatch):
    """One module of the part sleeps for 200 ms. Without it these parts take 1 to 15 ms."""
    model, images = network
    module, method = {
        "RFN, stem": (model.tokenizer.rfn, "forward"),
        "STS": (model.tokenizer, "traverse"),
        "MLP": (next(m for m in model.modules() if hasattr(m, "mlp")).mlp, "forward"),
        "frame": (model.tokenizer, "forward"),
    }[part]
    slow_module(monkeypatch, module, method)
    with torch.no_grad():
        parts = sum_parts(profile_forward(model, images))
    assert parts[part] >= 200


def test_sts_is_timed_inside_the_forward(network):
    """A clock that counts its calls: at the start, around STS, and at the end."""
    with torch.no_grad():
        assert time_forward(*network, clock=count().__next__) == (3, 1)


def test_shares():
    shares = Shares("nano", 2, 32, {"STS": 1.0, "scan": 3.0}, 8.0, 2.0)
    assert shares.share("scan") == 0.75
    assert shares.sts_share == 0.25


def test_measured_shares(monkeypatch):
    """The fastest run is reported, in milliseconds."""
    times, profiles = [(0.5, 0.1), (0.25, 0.05)], [{"STS": 9.0}, {"STS": 4.0}]
    monkeypatch.setattr("benchmarks.suite.forward_profile.FORWARDS", 2)
    monkeypatch.setattr("benchmarks.suite.forward_profile.PROFILES", 2)
    monkeypatch.setattr("benchmarks.suite.forward_profile.time_forward", lambda *_: times.pop())
    monkeypatch.setattr("benchmarks.suite.forward_profile.profile_forward", lambda *_: profiles.pop())
    monkeypatch.setattr("benchmarks.suite.forward_profile.sum_parts", lambda events: events)
    expected = Shares("spectral_vmamba_nano", 1, 32, {"STS": 4.0}, 250.0, 50.0)
    assert measure_shares("spectral_vmamba_nano", 1, 32, 0) == expected
