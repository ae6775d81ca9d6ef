"""Progress bars of commands that go through images."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def tables() -> Console:
    """For tables: as wide as the terminal, or wide enough where none is."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=160)


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
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:

        def shown(items: Iterable[Any], description: str, total: int) -> Iterable[Any]:
            return progress.track(items, total=total, description=description)

        yield shown
