"""Name what images show: files, folders, patterns or a list on standard input; as a table, JSON lines or CSV."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.table import Table

from spectral_vmamba.cli.progress import tables
from spectral_vmamba.data.find import find_images

_DESCRIPTION = f"""{__doc__}

ImageDataset that cannot be read are reported on standard error, the others are answered, and the exit code is 1.
Examples:
  spectral-vmamba predict runs/photos new/*.jpg
  find . -name '*.tif' | spectral-vmamba predict runs/photos - --format csv > answers.csv"""


def parser() -> ArgumentParser:
    parser = ArgumentParser(description=_DESCRIPTION)
    parser.add_argument("checkpoint", type=str, help="a checkpoint, or the folder of a run")
    parser.add_argument("images", nargs="+", type=str, help="files, folders, patterns; - reads names from stdin")
    parser.add_argument("--top", type=int, default=3, help="likeliest classes to name")
    parser.add_argument("--format", choices=list(_WRITERS), default="table", help="jsonl is one JSON object a line")
    parser.add_argument("--batch-size", type=int, default=32, help="images at a time")
    parser.add_argument("--weights", choices=["best", "ema", "raw"], default="best", help="averaged or raw weights")
    parser.add_argument("--device", type=str, default="cpu", help="where to run: cpu, cuda, …")
    parser.add_argument("--allow-urls", action="store_true", help="also fetch http(s) addresses; off unless asked for")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.inference import load

    if config.top < 1 or config.batch_size < 1:
        raise ValueError(f"expected --top and --batch-size of at least 1, got {config.top} and {config.batch_size}")
    predictor = load(config.checkpoint, config.weights, config.device)
    names = config.images
    if "-" in names:
        names = [name for name in names if name != "-"] + [line.strip() for line in sys.stdin if line.strip()]
    if not names:
        raise ValueError("no images are named on standard input")
    errors = Console(stderr=True)
    failed: list[str] = []

    def answered() -> Iterator[dict]:
        from spectral_vmamba.inference.batches import predicted

        for name, outcome in predicted(predictor, find_images(names, config.allow_urls), config.top, config.batch_size):
            if isinstance(outcome, Exception):
                failed.append(name)
                errors.print(f"error: {outcome}", style="red", markup=False, highlight=False, soft_wrap=True)
            else:
                yield {"file": name, "classes": outcome.classes, "probabilities": outcome.probabilities}

    _WRITERS[config.format](answered())
    return 1 if failed else 0


def _table(rows: Iterable[dict]) -> None:
    table = Table()
    for heading in ("image", "class", "probability", "then"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        named = [f"{name} {share:.1%}" for name, share in zip(row["classes"], row["probabilities"], strict=True)]
        table.add_row(row["file"], row["classes"][0], f"{row['probabilities'][0]:.1%}", ", ".join(named[1:]))
    if table.row_count:
        tables().print(table, highlight=False, markup=False)


def _json_lines(rows: Iterable[dict]) -> None:
    for row in rows:
        print(json.dumps(row, ensure_ascii=False), flush=True)


def _csv(rows: Iterable[dict]) -> None:
    writer = csv.writer(sys.stdout)
    for i, row in enumerate(rows):
        if i == 0:
            ranks = range(1, len(row["classes"]) + 1)
            writer.writerow(
                ["file", *(column for rank in ranks for column in (f"class_{rank}", f"probability_{rank}"))]
            )
        pairs = zip(row["classes"], row["probabilities"], strict=True)
        writer.writerow([row["file"], *(value for pair in pairs for value in pair)])


_WRITERS: dict[str, Callable[[Iterable[dict]], None]] = {"table": _table, "jsonl": _json_lines, "csv": _csv}
