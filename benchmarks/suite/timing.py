"""Times of one function, and of several competitors that are measured side by side."""

import gc
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor, get_num_threads
from torch.utils.benchmark import Timer

# Answers of correct float32 implementations differ by rounding, 1e-6 to 1e-4 of the largest entry; a wrong formula
# differs by far more.
WRONG_ANSWER = 1e-3
# Seconds that `best_seconds` spends on one function: at least, and at most for slow functions.
MIN_RUN_TIME, MAX_RUN_TIME = 0.3, 5.0

Clock = Callable[[], float]


@dataclass(frozen=True)
class Timing:
    """Best time of `repeats` runs.

    `difference` is the distance from our answer, relative to its largest entry; None if answers were not compared.
    """

    seconds: float
    repeats: int
    difference: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Times of the competitors. `failures` gives the reason where a competitor failed or returned a wrong answer."""

    timings: dict[str, Timing] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def ratio(self, other: str, ours: str) -> float | None:
        """Return the time of `other` divided by ours, or None if one of them has no time."""
        if other not in self.timings or ours not in self.timings:
            return None
        return self.timings[other].seconds / self.timings[ours].seconds

    def fastest(self, names: Iterable[str]) -> str | None:
        """Return the fastest of those `names` that have a time."""
        return min(self.timings.keys() & set(names), key=lambda name: self.timings[name].seconds, default=None)


def compare(
    competitors: dict[str, Callable[[], Any]],
    ours: str,
    difference: Callable[[Any, Any], float] | None = None,
    clock: Clock = time.perf_counter,
) -> Comparison:
    """Time the competitors in turns and keep the best time of each.

    Every competitor runs once to warm up; `difference(answer, our_answer)` then checks its answer. A competitor that
    fails is recorded and left out. An error of `ours` is raised.

    torch.utils.benchmark measures one statement at a time, all its repeats in a row: a disturbance of the machine hits
    one competitor and spoils the ratio. Here competitors take turns, so that a disturbance hits all of them.
    """
    differences, failures = _warm_up(competitors, ours, difference)
    names = [name for name in competitors if name not in failures]
    # The warm-up paid for lazy setup and compilation. The next run tells how many repeats are affordable.
    runs = {name: [time_once(competitors[name], clock)] for name in names}
    repeats = {name: choose_repeats(runs[name][0]) for name in names}
    for i in range(1, max(repeats.values(), default=0)):
        for name in names:
            if i < repeats[name]:
                runs[name].append(time_once(competitors[name], clock))
    return Comparison(
        {name: Timing(min(runs[name]), len(runs[name]), differences.get(name)) for name in names}, failures
    )


def _warm_up(
    competitors: dict[str, Callable[[], Any]], ours: str, difference: Callable[[Any, Any], float] | None
) -> tuple[dict[str, float], dict[str, str]]:
    """Run every competitor once; return the differences from our answer, and the failures."""
    differences, failures = {}, {}
    expected = competitors[ours]() if ours in competitors else None
    for name in competitors:
        if name == ours:
            continue
        try:
            answer = competitors[name]()
        except Exception as error:  # code of others: a compiler, a solver, an allocator
            failures[name] = describe_error(error)
            continue
        if difference is not None and expected is not None:
            differences[name] = difference(answer, expected)
            if not differences[name] <= WRONG_ANSWER:  # NaN is wrong, too
                failures[name] = f"wrong answer, off by {differences[name]:.1e}"
    return differences, failures


def time_once(function: Callable[[], Any], clock: Clock = time.perf_counter) -> float:
    """Return the seconds of one call, without the release of its result and without garbage collection.

    `Timer.timeit(1)` of torch.utils.benchmark would run the function twice before every timed call.
    """
    gc.disable()
    try:
        start = clock()
        answer = function()
        elapsed = clock() - start
        del answer
    finally:
        gc.enable()
    return elapsed


def choose_repeats(seconds: float) -> int:
    """Return how often to time a function that takes `seconds`."""
    if seconds > 5:
        return 2
    if seconds > 1:
        return 3
    return 7 if seconds > 0.05 else 15


def best_seconds(function: Callable[[], Any], clock: Clock = time.perf_counter) -> float:
    """Return the best time of a function measured alone: four runs or more, unless they exceed `MAX_RUN_TIME`."""
    # The assignment keeps the result until the clock has stopped: its release is not part of the time.
    timer = Timer("answer = function()", timer=clock, globals={"function": function}, num_threads=get_num_threads())
    # Since the best run counts, a spread of the times is no reason to continue: the threshold is infinite.
    measurement = timer.adaptive_autorange(math.inf, min_run_time=MIN_RUN_TIME, max_run_time=MAX_RUN_TIME)
    return min(measurement.times)


def growth_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return p of seconds ∝ sizes^p, by least squares of the logarithms; NaN for a single size."""
    if len(set(sizes)) < 2:
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def largest_difference(answers: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the largest absolute difference, relative to the largest entry of the expected tensor."""
    pairs = zip(answers, expected, strict=True)
    return max(float((a - b).abs().max() / b.abs().max().clamp_min(1e-30)) for a, b in pairs)


def describe_error(error: Exception) -> str:
    """Return the type and the first line of an error."""
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0][:200]}"
