"""Progress bars of commands that go through pictures."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def bars(console: Console) -> Iterator[Any]:
    """A function (items, description, total) → items that shows how far they are; gone afterwards."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:

        def shown(items: Iterable[Any], description: str, total: int) -> Iterable[Any]:
            return progress.track(items, total=total, description=description)

        yield shown
