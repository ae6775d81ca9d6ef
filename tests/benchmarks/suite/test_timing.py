"""Times by a fake clock are exact; competitors take turns; wrong answers and failures have no time."""

import math

import pytest
import torch

from benchmarks.suite.timing import (
    best_seconds,
    choose_repeats,
    compare,
    growth_exponent,
    largest_difference,
    time_once,
)


class FakeClock:
    """A clock that advances only by calls of `advance`."""

    def __init__(self):
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def function(self, *seconds: float):
        """Return a function whose calls take these times; the last one repeats."""
        remaining = list(seconds)
        return lambda: self.advance(remaining.pop(0) if len(remaining) > 1 else remaining[0])


@pytest.fixture
def clock():
    return FakeClock()


def test_best_times_and_their_ratio(clock):
    """The first call is the warm-up, which does not count; then 3 runs each, because the second call takes 3 s."""
    competitors = {"slow": clock.function(90, 3.0, 6.0, 5.0), "ours": clock.function(90, 3.0, 2.0, 4.0)}
    comparison = compare(competitors, "ours", clock=clock)
    assert list(comparison.timings) == ["slow", "ours"]
    assert [(timing.seconds, timing.repeats) for timing in comparison.timings.values()] == [(3.0, 3), (2.0, 3)]
    assert comparison.ratio("slow", "ours") == 1.5
    assert comparison.fastest(["slow", "absent"]) == "slow"
    assert comparison.fastest(["slow", "ours"]) == "ours"
    assert comparison.ratio("absent", "ours") is None


def test_competitors_take_turns():
    calls = []
    compare({name: lambda name=name: calls.append(name) for name in "ab"}, "a")
    assert calls == ["a", "b"] * 16  # a warm-up and 15 repeats


@pytest.mark.parametrize("measure", [time_once, best_seconds])
def test_release_of_the_result_is_not_timed(measure, clock):
    class Result:
        def __del__(self):
            clock.advance(100.0)

    def function():
        clock.advance(0.5)
        return Result()

    assert measure(function, clock) == 0.5


def test_best_seconds_is_the_shortest_run_after_the_warm_up(clock):
    assert best_seconds(clock.function(0.1, 0.5, 0.4, 0.25, 0.5), clock) == 0.25


def test_best_seconds_keeps_the_number_of_threads():
    threads = []
    torch.set_num_threads(2)
    best_seconds(lambda: threads.append(torch.get_num_threads()))
    assert set(threads) == {2}


def test_failure_is_recorded_and_left_out():
    def fail():
        raise RuntimeError("no compiler\nlong trace")

    comparison = compare({"ours": lambda: 1.0, "failing": fail}, "ours")
    assert list(comparison.timings) == ["ours"]
    assert comparison.failures == {"failing": "RuntimeError: no compiler"}
    with pytest.raises(RuntimeError, match="no compiler"):
        compare({"ours": fail}, "ours")


@pytest.mark.parametrize("answer", [2.0, math.nan])
def test_wrong_answer_has_no_time(answer):
    comparison = compare({"ours": lambda: 1.0, "wrong": lambda: answer}, "ours", lambda a, b: abs(a - b))
    assert list(comparison.timings) == ["ours"]
    assert "wrong answer" in comparison.failures["wrong"]


def test_difference_is_relative_to_the_largest_entry():
    expected = [torch.tensor([1.0, -4.0]), torch.tensor([1.0])]
    assert largest_difference([torch.tensor([2.0, -4.0]), torch.tensor([1.125])], expected) == 0.25


def test_slow_functions_have_few_repeats():
    assert [choose_repeats(seconds) for seconds in (6.0, 2.0, 0.5, 0.001)] == [2, 3, 7, 15]


def test_growth_exponent():
    assert growth_exponent([2, 4, 8], [3 * 2**1.5, 3 * 4**1.5, 3 * 8**1.5]) == pytest.approx(1.5)
    assert math.isnan(growth_exponent([2], [1.0]))
