"""List every model: family, parameters, FLOPs by its authors' rule and by ours, image size, invariances."""

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.progress import track
from rich.table import Table

from spectral_vmamba.cli.progress import tables
from spectral_vmamba.metrics.author_rules import RULES
from spectral_vmamba.metrics.catalog import as_markdown, catalog, cells


def parser() -> ArgumentParser:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--num-classes", type=int, default=1000, help="classes that parameters are counted for")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown, as in docs/models.md")
    return parser


def run(config: Namespace) -> int:
    console, errors = tables(), Console(stderr=True)
    if config.num_classes < 1:
        raise ValueError(f"expected --num-classes of at least 1, got {config.num_classes}")
    rows = catalog(config.num_classes, lambda models: track(models, "counting", console=errors, transient=True))
    if config.markdown:
        print(as_markdown(rows, config.num_classes), end="")
        return 0
    table = Table()
    table.add_column("model", no_wrap=True)
    table.add_column("family", no_wrap=True)
    for heading in ("trainable", "frozen", "px", "GFLOPs, authors", "GFLOPs, all"):
        table.add_column(heading, justify="right")
    table.add_column("invariant to")
    for row in rows:
        table.add_row(*cells(row))
    console.print(table, highlight=False)
    console.print(
        f"at {config.num_classes} classes; multiply-adds, 5 per normalized element, 9·l·d·n + l·d per scanned path. "
        "“All” counts every direction and every pass of a stem; authors count:",
        highlight=False,
    )
    for family, rule in RULES.items():
        console.print(f"  {family}: {rule}", highlight=False)
    return 0
