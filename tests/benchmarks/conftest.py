import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def short_timing(monkeypatch):
    """Time everything once: for tests that look at what is measured, not at how long it takes."""
    monkeypatch.setattr("benchmarks.suite.timing.choose_repeats", lambda seconds: 1)
    monkeypatch.setattr("benchmarks.suite.timing.MIN_RUN_TIME", 1e-6)
    monkeypatch.setattr("benchmarks.suite.timing.MAX_RUN_TIME", 1e-6)
