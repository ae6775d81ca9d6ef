from benchmarks.suite.scan import LARGEST_BYTES, LIVE_COPIES, PASSES, PATHS, ScanCell, _summarize, fit_batch
from benchmarks.suite.scan_report import format_scan
from benchmarks.suite.timing import Comparison, Timing


def test_batch_shrinks_to_fit():
    assert fit_batch(196, 512) == 8
    batch = fit_batch(3136, 2048)
    assert 1 <= batch < 8
    assert 4 * LIVE_COPIES * batch * PATHS * 3136 * 2048 <= LARGEST_BYTES
    assert 4 * LIVE_COPIES * 2 * batch * PATHS * 3136 * 2048 > LARGEST_BYTES


def test_summary_of_known_times():
    """The native time is linear in the tokens; the peer takes 4 times as long at 16 tokens and 2 times at 64."""
    cells = []
    for tokens, ratio in ((16, 4.0), (64, 2.0)):
        timings = {"native": Timing(tokens / 1e3, 3), "loop": Timing(ratio * tokens / 1e3, 3)}
        cells += [ScanCell(tokens, 96, 2, direction, Comparison(timings)) for direction in PASSES]
    result = _summarize("native", ("loop",), cells, [])
    assert result.headline == (64, 96)
    assert result.smallest_ratio == {direction: {"loop": 2.0} for direction in PASSES}
    assert {round(line[96], 12) for line in result.growth.values()} == {1.0}
    assert "the fastest peer takes 2.00× our time forward (loop)" in format_scan(result)[2]
