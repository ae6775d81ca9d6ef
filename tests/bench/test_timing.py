import math
import time

import pytest

from spectral_vmamba.bench.timing import as_times, compare, growth_exponent, repeats_for


def test_ratio_of_known_durations():
    comparison = compare({"slow": lambda: time.sleep(0.02), "ours": lambda: time.sleep(0.005)}, ours="ours")
    assert list(comparison.timings) == ["slow", "ours"]
    assert 2 < (comparison.ratio("slow", "ours") or 0) < 6
    assert comparison.fastest(["slow", "absent"]) == "slow"
    assert comparison.ratio("absent", "ours") is None


def test_competitors_take_turns():
    calls = []
    compare({name: lambda name=name: calls.append(name) for name in "ab"}, ours="a")
    assert calls == ["a", "b"] * (len(calls) // 2)


def test_failure_is_recorded_and_left_out():
    def fails():
        raise RuntimeError("no compiler\nlong trace")

    comparison = compare({"ours": lambda: 1.0, "broken": fails}, ours="ours")
    assert list(comparison.timings) == ["ours"]
    assert comparison.failures == {"broken": "RuntimeError: no compiler"}
    with pytest.raises(RuntimeError, match="no compiler"):
        compare({"ours": fails}, ours="ours")


@pytest.mark.parametrize("answer", [2.0, math.nan])
def test_wrong_answers_get_no_time(answer):
    comparison = compare({"ours": lambda: 1.0, "odd": lambda: answer}, "ours", lambda a, b: abs(a - b))
    assert "odd" not in comparison.timings
    assert "wrong answer" in comparison.failures["odd"]


def test_slow_ones_run_twice_and_quick_ones_often():
    assert repeats_for(6.0) == 2
    assert repeats_for(0.5) >= 7
    assert repeats_for(0.001) >= 7


def test_growth_exponent():
    assert growth_exponent([2, 4, 8], [3 * 2**1.5, 3 * 4**1.5, 3 * 8**1.5]) == pytest.approx(1.5)
    assert math.isnan(growth_exponent([2], [1.0]))


def test_as_times():
    assert [as_times(r) for r in (None, 0.5, 3.14159, 12.34)] == ["–", "0.50×", "3.14×", "12.3×"]
