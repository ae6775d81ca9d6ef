"""Progress callbacks and bars."""

import io
import sys

import pytest
from rich.console import Console

from spectral_vmamba.utils.progress import no_progress, progress_bar, progress_bars


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
