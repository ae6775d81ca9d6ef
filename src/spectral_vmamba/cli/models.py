"""List every model: parameters, FLOPs, image size and invariance."""

from jsonargparse import Namespace
from rich.console import Console
from rich.table import Table

from spectral_vmamba.cli.console import print_line, print_table, table_console
from spectral_vmamba.cli.options import CommandParser
from spectral_vmamba.metrics.author_rules import RULES
from spectral_vmamba.metrics.catalog import format_cells, format_markdown, measure_catalog
from spectral_vmamba.models.shipped_weights import shipped_weights
from spectral_vmamba.utils.progress import progress_bars

_DESCRIPTION = f"""{__doc__}

Prints one row per model: the registered families and timm's baselines of the paper's comparison. FLOPs are counted
twice, by the rule of the model's authors and with all layers as they run (without STS). Takes about a second per model.

Examples:
  spectral-vmamba models
  spectral-vmamba models --num-classes 100 --markdown"""


def parser() -> CommandParser:
    parser = CommandParser(description=_DESCRIPTION)
    parser.add_argument("--num-classes", type=int, default=1000, help="number of classes to count parameters for")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown, as in docs/models.md")
    return parser


def run(config: Namespace) -> int:
    if config.num_classes < 1:
        raise ValueError(f"expected --num-classes of at least 1, got {config.num_classes}")
    with progress_bars(Console(stderr=True)) as progress:
        rows = measure_catalog(config.num_classes, progress)
    if config.markdown:
        print(format_markdown(rows, config.num_classes), end="")
        return 0
    table = Table()
    table.add_column("model", no_wrap=True)
    table.add_column("family", no_wrap=True)
    for heading in ("trainable", "frozen", "px", "GFLOPs, authors", "GFLOPs, all"):
        table.add_column(heading, justify="right")
    table.add_column("invariant to")
    for row in rows:
        table.add_row(*format_cells(row))
    console = table_console()
    print_table(table, console)
    print_line(
        console,
        f"Parameters are for {config.num_classes} classes. FLOPs are multiply-adds, 5 per normalized element and "
        "9·l·d·n + l·d per scanned path.\n“All” counts every direction and every pass of a stem. Authors count:",
    )
    for family, rule in RULES.items():
        print_line(console, f"  {family}: {rule}")
    print_line(console, "Trained weights that ship with the package, for `predict --model` and `load`:")
    for weights in shipped_weights().values():
        print_line(console, f"  {weights.name}: {weights.images}; {len(weights.classes)} classes")
    return 0
