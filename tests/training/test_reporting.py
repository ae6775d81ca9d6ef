"""Reports on a terminal."""

import io
import time
from dataclasses import replace

import pytest
from rich.console import Console

from spectral_vmamba.training import Reporter, TerminalReporter
from spectral_vmamba.training.reporting import EpochReport, StepReport


def epoch(ema: float | None = 0.75, ema_loss: float | None = 1.0) -> EpochReport:
    return EpochReport(2, 10, 0.5, 1e-3, 0.5, 1.5, ema, ema_loss, 123.4, 0.25, 3.0)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_run_on_a_terminal(terminal):
    stream = io.StringIO()
    reporter = TerminalReporter(Console(file=stream, force_terminal=terminal, width=200))
    assert list(reporter.track(iter("ab"), "features", 2)) == ["a", "b"]
    reporter.begin("[title] of the run", steps=20, done=0, epochs=12)
    reporter.step(StepReport(5, 0.25, 1e-3, 99.6, 0.1))
    reporter.epoch(epoch(), best=True)
    reporter.note("a [note]")
    reporter.end()
    shown = stream.getvalue()
    line = "epoch  2/12  loss 0.5000  validation 50.00%  averaged weights 75.00%  123 img/s, 25.0% waiting for data"
    assert all(text in shown for text in ("[title] of the run", f"{line}  ← best", "a [note]"))
    assert ("loss 0.250  100 img/s" in shown) == terminal
    assert ("features" in shown) == terminal


def redirected_reporter() -> tuple[TerminalReporter, io.StringIO]:
    stream = io.StringIO()
    return TerminalReporter(Console(file=stream, width=200), line_seconds=10), stream


def test_redirected_training_prints_an_estimate_and_a_line_every_ten_seconds(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    reporter, stream = redirected_reporter()
    reporter.begin("title", steps=1000, done=100, epochs=2)
    for step in range(1, 14):  # two seconds per step
        now[0] += 2
        reporter.step(StepReport(100 + step, 0.25, 1e-3, 99.6, 0.1))
    title, estimate, line = stream.getvalue().splitlines()
    assert title == "title"
    assert estimate == "900 training steps, without validation: about 30 min"
    assert line == "steps: 109 of 1,000, 30.0 per minute, about 30 min left, loss 0.250, 100 img/s"


def test_short_epochs_give_the_estimate_and_no_other_lines(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    reporter, stream = redirected_reporter()
    reporter.begin("title", steps=60, done=0, epochs=12)
    now[0] = 3.0
    reporter.epoch(replace(epoch(), epoch=1), best=False)  # took 3 s
    reporter.epoch(epoch(), best=False)
    lines = stream.getvalue().splitlines()
    assert lines[1] == "60 training steps: about 36 s"
    assert [line.split()[0] for line in lines] == ["title", "60", "epoch", "epoch"]


def test_the_base_reporter_does_nothing():
    reporter = Reporter()
    reporter.begin("title", 1, 0, 1)
    reporter.epoch(epoch(), best=False)
    reporter.end()
    assert list(reporter.track([1, 2], "work", 2)) == [1, 2]


@pytest.mark.parametrize(
    ("ema", "ema_loss", "expected"),
    [
        (0.75, 9.0, ("ema", 0.75, 9.0)),
        (0.25, 0.1, ("raw", 0.5, 1.5)),
        (0.5, 1.0, ("ema", 0.5, 1.0)),
        (0.5, 2.0, ("raw", 0.5, 1.5)),
        (None, None, ("raw", 0.5, 1.5)),
    ],
)
def test_the_better_weights_are_more_accurate_or_have_a_smaller_loss(ema, ema_loss, expected):
    assert epoch(ema, ema_loss).better_weights() == expected
