"""Console output shared by the commands."""

import os

from rich.console import Console
from rich.table import Table

from spectral_vmamba.utils.progress import print_line

__all__ = ["folding_table", "print_error", "print_line", "print_table", "print_warning", "table_console"]


def print_table(table: Table, console: Console | None = None) -> None:
    """Print a table with its cells as they are; the console defaults to `table_console()`."""
    (console or table_console()).print(table, highlight=False, markup=False)


def print_error(error: object) -> None:
    """Print one line on standard error."""
    print_line(Console(stderr=True), f"error: {error}", style="red")


def print_warning(text: object) -> None:
    """Print one line on standard error."""
    print_line(Console(stderr=True), f"warning: {text}", style="yellow")


def table_console() -> Console:
    """Return a console as wide as the terminal, or 160 columns wide when the output is not a terminal."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=160)


def folding_table(*headings: str) -> Table:
    """Return a table whose long cells continue on the next line instead of being cut."""
    table = Table()
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
