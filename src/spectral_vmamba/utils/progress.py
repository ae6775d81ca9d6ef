"""Progress of long work: one callback type, one bar. rich is imported when a bar is shown, not before."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from spectral_vmamba.utils.extras import require

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

Item = TypeVar("Item")


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
def progress_bars(console: "Console") -> Iterator[Progress]:
    """A `Progress` that shows a bar for each iterable, on one display."""
    with progress_bar(console) as display:

        def track(items: Iterable[Any], description: str, total: int) -> Iterable[Any]:
            return display.track(items, total=total, description=description)

        yield track
