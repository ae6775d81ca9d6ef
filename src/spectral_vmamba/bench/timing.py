"""Best-of-several times of competitors that take turns, so that a noisy machine hits all of them alike."""

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

# Answers of float32 competitors differ by rounding, 1e-6 to 1e-4 of the largest entry; a wrong formula by far more.
WRONG = 1e-3


@dataclass(frozen=True)
class Timing:
    """`difference` is from our answer, relative to its largest entry; None if answers were not compared."""

    seconds: float
    repeats: int
    difference: float | None = None


@dataclass(frozen=True)
class Comparison:
    """`failures` says why a competitor has no time, or that its answer is wrong (its time is then left out)."""

    timings: dict[str, Timing] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def ratio(self, other: str, ours: str) -> float | None:
        """How many times as long as ours `other` takes."""
        if other not in self.timings or ours not in self.timings:
            return None
        return self.timings[other].seconds / self.timings[ours].seconds

    def fastest(self, names: Sequence[str]) -> str | None:
        return min(
            (name for name in names if name in self.timings), key=lambda n: self.timings[n].seconds, default=None
        )


def repeats_for(seconds: float) -> int:
    if seconds > 5:
        return 2
    if seconds > 1:
        return 3
    return 7 if seconds > 0.05 else 15


def compare(
    competitors: dict[str, Callable[[], Any]],
    ours: str | None = None,
    difference: Callable[[Any, Any], float] | None = None,
) -> Comparison:
    """Run everyone once to warm up and check the answers against ours, then in rounds; keep each one's best time.

    A competitor that fails is recorded and left out. Ours must not fail: its error is raised.
    """
    expected, differences, failures, ready = None, {}, {}, []
    for name in sorted(competitors, key=lambda name: name != ours):
        try:
            answer = competitors[name]()
        except Exception as error:  # foreign code: a compiler, a solver, an allocator
            if name == ours:
                raise
            failures[name] = failure_line(error)
            continue
        if name == ours:
            expected = answer
        elif difference is not None and expected is not None:
            differences[name] = difference(answer, expected)
        if differences.get(name, 0.0) <= WRONG:
            ready.append(name)
        else:
            failures[name] = f"wrong answer, off by {differences[name]:.1e}"
    del expected
    # The first run paid for lazy setup and compilation; the second one says how many repeats there is time for.
    runs = {name: [seconds_of(competitors[name])] for name in ready}
    wanted = {name: repeats_for(seconds[0]) for name, seconds in runs.items()}
    for i in range(1, max(wanted.values(), default=0)):
        for name in ready:
            if i < wanted[name]:
                runs[name].append(seconds_of(competitors[name]))
    timed = [name for name in competitors if name in runs]
    timings = {name: Timing(min(runs[name]), len(runs[name]), differences.get(name)) for name in timed}
    return Comparison(timings, failures)


def best_seconds(function: Callable[[], Any]) -> float:
    return compare({"": function}, ours="").timings[""].seconds


def growth_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """p of seconds ∝ sizes^p, by least squares in logarithms."""
    if len(set(sizes)) < 2:
        return math.nan
    x, y = [math.log(size) for size in sizes], [math.log(s) for s in seconds]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    along = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return along / sum((a - mean_x) ** 2 for a in x)


def failure_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0][:200]}"


def as_times(ratio: float | None) -> str:
    if ratio is None:
        return "–"
    return f"{ratio:.1f}×" if ratio >= 10 else f"{ratio:.2f}×"


def seconds_of(function: Callable[[], Any]) -> float:
    gc.disable()
    try:
        start = time.perf_counter()
        answer = function()
        elapsed = time.perf_counter() - start
        del answer
    finally:
        gc.enable()
    return elapsed
