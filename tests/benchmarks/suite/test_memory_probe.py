import pytest

from benchmarks.suite import memory_probe
from spectral_vmamba.layers import s6 as s6_module


def test_probe_replaces_the_scan_of_the_mixer(monkeypatch):
    monkeypatch.setattr(s6_module, "selective_scan", s6_module.selective_scan)  # restored after the test
    memory_probe.mixer_step("HF slow path", 1, 3, 16)()
    monkeypatch.setattr(memory_probe, "_replace_scan", lambda name: [])  # replaces nothing, records no call
    with pytest.raises(RuntimeError, match="did not call"):
        memory_probe.mixer_step("torch loop", 1, 3, 16)
