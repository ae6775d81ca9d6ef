"""Console output."""

import io

import pytest
from rich.console import Console

from spectral_vmamba.cli.console import folding_table, print_error, print_line, print_table, table_console


def test_lines_are_printed_as_they_are():
    console = Console(file=io.StringIO(), width=20)
    print_line(console, "[bold] " + "x" * 40 + " 12")
    assert console.file.getvalue() == "[bold] " + "x" * 40 + " 12\n"


def test_tables_show_brackets_and_whole_cells():
    console = Console(file=io.StringIO(), width=24)
    table = folding_table("file")
    table.add_row("photos[old]/" + "y" * 30)
    print_table(table, console)
    text = console.file.getvalue()
    assert "photos[old]" in text
    assert text.count("y") == 30


def test_errors_go_to_standard_error(capsys):
    print_error(ValueError("[3] is too much"))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "error: [3] is too much\n")


@pytest.mark.parametrize(("columns", "width"), [("77", 77), (None, 160)])
def test_tables_have_room_where_there_is_no_terminal(monkeypatch, capsys, columns, width):
    monkeypatch.delenv("COLUMNS")
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    assert table_console().width == width
