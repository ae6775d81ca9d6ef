"""Progress callbacks and bars."""

import io
import sys
import time

import pytest
from rich.console import Console

from spectral_vmamba.utils.progress import Estimate, no_progress, progress_bar, progress_bars, progress_line


def make_console(terminal: bool) -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    return Console(file=stream, force_terminal=terminal, width=120), stream


def test_no_progress_returns_the_items():
    items = [1, 2]
    assert no_progress(items, "work", 2) is items


@pytest.mark.parametrize("terminal", [True, False])
def test_bars_pass_all_items_on(terminal):
    console, stream = make_console(terminal)
    with progress_bars(console) as progress:
        assert list(progress(iter("abc"), "first", 3)) == ["a", "b", "c"]
        assert list(progress([], "empty", 0)) == []
        assert list(progress(range(5), "second", 5)) == [0, 1, 2, 3, 4]
    shown = stream.getvalue()
    if terminal:
        assert "first" in shown
        assert "3/3" in shown
        assert "5/5" in shown
    else:
        assert shown.strip() == ""


def test_redirected_output_gets_lines_also_during_a_long_item():
    console, stream = make_console(False)
    with progress_bars(console, line_seconds=0.2) as progress:
        for item in progress(range(2), "[work]", 2):
            time.sleep(0.5 if item == 1 else 0.02)
    lines = stream.getvalue().splitlines()
    assert lines, "no line in 0.5 s"
    assert all(line.startswith("[work]: 1 of 2, ") and line.endswith(" left") for line in lines)
    assert len(lines) <= 3


def test_the_lines_of_a_failed_task_stop():
    console, stream = make_console(False)
    with progress_bars(console, line_seconds=0.1) as progress:
        with pytest.raises(ValueError, match="no more"):
            for _ in progress(range(3), "work", 3):
                raise ValueError("no more")
        shown = stream.getvalue()
        time.sleep(0.3)
        assert stream.getvalue() == shown


@pytest.mark.parametrize(
    ("done", "seconds", "before", "text"),
    [
        (0, 12, 0, "work: 0 of 1,000 after 12 s"),
        (400, 20, 0, "work: 400 of 1,000, 20.0 per second, about 30 s left"),
        (400, 20, 380, "work: 400 of 1,000, 1.0 per second, about 10 min left"),
        (10, 40, 0, "work: 10 of 1,000, 15.0 per minute, about 66 min left"),
    ],
)
def test_a_line_has_count_rate_and_time_left(done, seconds, before, text):
    assert progress_line("work", done, 1000, seconds, before) == text


def test_an_estimate_is_stated_once_and_does_not_extrapolate_the_start(monkeypatch):
    clock = iter([100.0, 103.0, 106.0, 110.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    notes = []
    estimate = Estimate(notes.append, probe_seconds=5)
    for done in (1, 2, 3, 4):
        estimate.update(done, 101, "100 steps")
    estimate.state(1, "100 steps")
    assert notes == ["100 steps: about 5 min"], "two steps in 6 s, after a first one that took 100 s"


def test_items_are_taken_one_at_a_time():
    taken = []

    def items():
        for i in range(3):
            taken.append(i)
            yield i

    with progress_bars(make_console(True)[0]) as progress:
        assert next(iter(progress(items(), "work", 3))) == 0
    assert taken == [0]


def test_errors_in_the_work_are_raised():
    def failing():
        yield 1
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"), progress_bars(make_console(True)[0]) as progress:
        list(progress(failing(), "work", 2))


def test_extra_fields_are_shown():
    console, stream = make_console(True)
    with progress_bar(console, "loss {task.fields[loss]}") as bar:
        bar.add_task("steps", total=10, completed=4, loss="0.25")
    assert "steps" in stream.getvalue()
    assert "4/10" in stream.getvalue()
    assert "loss 0.25" in stream.getvalue()


def test_without_rich_the_extra_is_named(monkeypatch):
    console, _ = make_console(False)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with pytest.raises(ImportError, match=r"spectral-vmamba\[cli\]"):
        progress_bar(console)
