"""Progress of long work: a bar on a terminal, a line every ten seconds elsewhere. rich is imported when needed."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from spectral_vmamba.utils.extras import require
from spectral_vmamba.utils.wording import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

Item = TypeVar("Item")
LINE_SECONDS = 10.0


@runtime_checkable
class Progress(Protocol):
    """Wraps an iterable: yields its items and reports how many of `total` are done."""

    def __call__(self, items: Iterable[Item], description: str, total: int) -> Iterable[Item]: ...


def no_progress(items: Iterable[Item], description: str, total: int) -> Iterable[Item]:
    """The default: yields the items and shows nothing."""
    return items


def progress_bar(console: "Console", fields: str = "") -> "RichProgress":
    """A bar with count, elapsed and remaining time; hidden where the output is not a terminal, removed at the end.

    `fields` is a format string over the task's extra fields, as in "loss {task.fields[loss]}".
    """
    rich = require("rich.progress", "cli")
    return rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        *([rich.TextColumn(fields)] if fields else []),
        rich.TimeElapsedColumn(),
        rich.TextColumn("left"),
        rich.TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


@contextmanager
def progress_bars(console: "Console", line_seconds: float = LINE_SECONDS) -> Iterator[Progress]:
    """A `Progress` that shows a bar for each iterable, on one display.

    Where the output is not a terminal, it prints a line every `line_seconds`; nothing for work that takes less.
    """
    if not console.is_terminal:
        with _progress_lines(console, line_seconds) as progress:
            yield progress
        return
    with progress_bar(console) as display:

        def track(items: Iterable[Any], description: str, total: int) -> Iterable[Any]:
            return display.track(items, total=total, description=description)

        yield track


def progress_line(description: str, done: int, total: int, seconds: float, already_done: int = 0) -> str:
    """Count, rate and time left; `seconds` is the time for those of `done` that were not `already_done`."""
    if done <= already_done:
        return f"{description}: {done:,} of {total:,} after {duration(seconds)}"
    rate = (done - already_done) / max(seconds, 1e-9)
    speed = f"{rate:.1f} per second" if rate >= 1 else f"{60 * rate:.1f} per minute"
    return f"{description}: {done:,} of {total:,}, {speed}, about {duration((total - done) / rate)} left"


@dataclass
class _Task:
    description: str
    total: int
    done: int = 0
    started: float = field(default_factory=time.monotonic)
    reported: float = field(default_factory=time.monotonic)


@contextmanager
def _progress_lines(console: "Console", line_seconds: float) -> Iterator[Progress]:
    """A thread prints the lines: one item, such as a batch at 24 angles, can take minutes."""
    tasks: list[_Task] = []
    finished = threading.Event()

    def track(items: Iterable[Any], description: str, total: int) -> Iterator[Any]:
        task = _Task(description, total)
        tasks.append(task)
        try:
            for item in items:
                yield item
                task.done += 1
        finally:
            tasks.remove(task)

    def report() -> None:
        while not finished.wait(min(line_seconds / 4, 1.0)):
            now = time.monotonic()
            for task in [task for task in tasks if now - task.reported >= line_seconds]:
                task.reported = now
                print_line(console, progress_line(task.description, task.done, task.total, now - task.started))

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield track
    finally:
        finished.set()
        thread.join()


def print_line(console: "Console", text: str, style: str | None = None) -> None:
    """Print text as it is: brackets are not markup, numbers are not highlighted, long lines are not wrapped."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


class Estimate:
    """States once, after a few seconds of work, how long all of it will take."""

    def __init__(self, note: Callable[[str], None], probe_seconds: float = 5.0):
        self.note, self.probe_seconds = note, probe_seconds
        self.first: tuple[float, float] | None = None
        self.stated = False

    def update(self, done: float, total: float, what: str) -> None:
        """`done` of `total` is finished. Count from the first call on, so that the time to start is not extrapolated."""
        now = time.monotonic()
        if self.first is None:
            self.first = (now, done)
        started, at_start = self.first
        if not self.stated and done > at_start and now - started >= self.probe_seconds:
            self.state((now - started) * (total - at_start) / (done - at_start), what)

    def state(self, seconds: float, what: str) -> None:
        if not self.stated:
            self.stated = True
            self.note(f"{what}: about {duration(seconds)}")
