import pytest

from benchmarks.suite.limits import LimitsResult, ScanLimit, measure_copy_bandwidth, measure_scan_limit
from benchmarks.suite.products import Replay


def test_shares_of_the_limits():
    scan = ScanLimit(49, 96, 2, {"forward": 4_000}, {"forward": 8e-6})
    replay = Replay(0.3, 10, 1, [])
    result = LimitsResult("native", 1e9, [scan], "nano", 2, 0.4, replay, [])
    assert result.bandwidth_share(scan, "forward") == pytest.approx(0.5)
    assert result.products_share == pytest.approx(0.75)


def test_bandwidth_counts_reads_and_writes(monkeypatch):
    monkeypatch.setattr("benchmarks.suite.limits.best_seconds", lambda function: 0.5)
    assert measure_copy_bandwidth(1024) == 4096


@pytest.mark.usefixtures("short_timing")
def test_bytes_of_a_scan():
    """x, delta, A, B, C, D, delta_bias in float32 and orders in int64; y or the gradients besides."""
    tokens, channels, batch, paths = 16, 24, 2, 8
    x, delta, per_token, per_set = 2 * 16 * 24, 2 * 8 * 16 * 24, 2 * 8 * 16, 8 * 24
    inputs, orders = 4 * (x + delta + 2 * per_token + 3 * per_set), 8 * batch * paths * tokens
    limit = measure_scan_limit("auto", tokens, channels, batch, 0)
    assert limit.bytes == {"forward": inputs + orders + 4 * x, "backward": 2 * inputs + orders + 4 * x}
