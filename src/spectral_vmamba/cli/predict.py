"""Classify images and print the most likely classes as a table, JSON lines or CSV."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import folding_table, print_error, print_table, print_warning
from spectral_vmamba.cli.options import CommandParser
from spectral_vmamba.data.find import find_images
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.utils.progress import Progress, no_progress, progress_bars
from spectral_vmamba.utils.wording import at_least, plural

_DESCRIPTION = f"""{__doc__}

The classifier is a run folder, a checkpoint file, or the name of weights that ship with the package (`spectral-vmamba
models` lists them). Images are files, folders, glob patterns, or - to read paths from standard input. Unreadable images
are reported on standard error, the other images are classified, and the exit code is 1. A classifier with the frame
moment or upright leaves out a uniform border, as of scans and of images that were rotated on a larger canvas, and names
the first of these images on standard error; jsonl and csv tell for each. --keep-borders classifies them with it.

Examples:
  spectral-vmamba predict runs/photos new/*.jpg
  spectral-vmamba predict --model spectral_vmamba_nano.digits scan.png
  find . -name '*.tif' | spectral-vmamba predict runs/photos - --format csv > predictions.csv"""


def parser() -> CommandParser:
    parser = CommandParser(description=_DESCRIPTION)
    parser.add_argument("checkpoint", type=str, help="the classifier; with --model, the first image")
    parser.add_argument(
        "images", nargs="*", type=str, help="files, folders or glob patterns; - reads paths from standard input"
    )
    parser.add_argument("--model", type=str | None, default=None, help="the classifier; all other arguments are images")
    parser.add_argument("--top", type=int, default=3, help="number of classes per image, most likely first")
    parser.add_argument(
        "--format", choices=list(_WRITERS), default="table", help="output format; jsonl is one JSON object per line"
    )
    parser.add_argument("--batch-size", type=int, default=32, help="images per batch")
    parser.add_argument(
        "--weights",
        choices=["best", "ema", "raw"],
        default="best",
        help="averaged weights (ema), raw weights, or the ones with the better validation accuracy (best)",
    )
    parser.add_argument("--keep-borders", action="store_true", help="classify images with their uniform borders")
    parser.add_argument("--device")
    parser.add_argument("--allow-urls", action="store_true", help="also accept http(s) URLs and download them")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.inference import load

    at_least(1, top=config.top, batch_size=config.batch_size)
    checkpoint, names = config.checkpoint, config.images
    if config.model:
        checkpoint, names = config.model, [config.checkpoint, *config.images]
    if not names:
        raise ValueError(f"expected images after the classifier {checkpoint}")
    predictor = load(checkpoint, config.weights, config.device)
    if config.keep_borders:
        predictor = replace(predictor, preprocessing=replace(predictor.preprocessing, borders=False))
    if "-" in names:
        names = [name for name in names if name != "-"] + [line.strip() for line in sys.stdin if line.strip()]
    if not names:
        raise ValueError("expected paths of images on standard input, got none")
    failed: list[str] = []
    without_border: list[str] = []

    def predictions(progress: Progress) -> Iterator[dict]:
        found = list(find_images(names, config.allow_urls))
        outcomes = predictor.predict_stream(found, config.top, config.batch_size)
        for name, outcome in progress(outcomes, "classifying", len(found)):
            if isinstance(outcome, ReadError):
                failed.append(name)
                print_error(outcome.reason)
            else:
                if outcome.without_border:
                    without_border.append(name)
                yield {
                    "file": name,
                    "classes": outcome.classes,
                    "probabilities": outcome.probabilities,
                    "without_border": outcome.without_border,
                }

    rows: Iterable[dict] = predictions(no_progress)
    if config.format == "table":  # the other formats are written row by row
        with progress_bars(Console(stderr=True)) as progress:
            rows = list(predictions(progress))
    _WRITERS[config.format](rows)
    if without_border:
        print_warning(_describe_borders(without_border))
    return 1 if failed else 0


def _describe_borders(names: list[str]) -> str:
    first = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"left out the uniform border of {plural(len(names), 'image')} ({first}); --keep-borders includes it"


def _write_table(rows: Iterable[dict]) -> None:
    table = folding_table("image", "class", "probability", "next")
    for row in rows:
        ranked = [f"{name} {share:.1%}" for name, share in zip(row["classes"], row["probabilities"], strict=True)]
        table.add_row(row["file"], row["classes"][0], f"{row['probabilities'][0]:.1%}", ", ".join(ranked[1:]))
    if table.row_count:
        print_table(table)


def _write_json_lines(rows: Iterable[dict]) -> None:
    for row in rows:
        print(json.dumps(row, ensure_ascii=False), flush=True)


def _write_csv(rows: Iterable[dict]) -> None:
    writer = csv.writer(sys.stdout)
    for i, row in enumerate(rows):
        if i == 0:
            ranks = range(1, len(row["classes"]) + 1)
            writer.writerow(
                [
                    "file",
                    *(column for rank in ranks for column in (f"class_{rank}", f"probability_{rank}")),
                    "without_border",
                ]
            )
        pairs = zip(row["classes"], row["probabilities"], strict=True)
        writer.writerow([row["file"], *(value for pair in pairs for value in pair), row["without_border"]])


_WRITERS: dict[str, Callable[[Iterable[dict]], None]] = {
    "table": _write_table,
    "jsonl": _write_json_lines,
    "csv": _write_csv,
}
