"""Find the images of an embedded collection that are most similar to given images, turned by any angle."""

import csv
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import folding_table, print_error, print_line, print_table, table_console
from spectral_vmamba.cli.options import CommandParser
from spectral_vmamba.data.find import find_images
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.utils.extras import require
from spectral_vmamba.utils.wording import at_least

_DESCRIPTION = f"""{__doc__}

EMBEDDINGS is an output folder of `spectral-vmamba embed`; the images are embedded with the same network. Prints the
most similar images of the collection for each image, with cosine similarities: 1 for the same image, also after a
rotation by 90, 180 or 270°. Unreadable images are reported on standard error, the other images are searched, and the
exit code is 1.

Examples:
  spectral-vmamba search photos.vectors new.jpg --sheet found.png
  spectral-vmamba search photos.vectors new/*.jpg --top 1 --format csv > nearest.csv"""


def parser() -> CommandParser:
    parser = CommandParser(description=_DESCRIPTION)
    parser.add_argument("embeddings", type=str, help="output folder of embed")
    parser.add_argument("images", nargs="+", type=str, help="images to search for: files, folders or glob patterns")
    parser.add_argument("--top", type=int, default=10, help="number of results per image")
    parser.add_argument("--sheet", type=str | None, default=None, help="PNG to write with the images and their results")
    parser.add_argument(
        "--format", choices=list(_WRITERS), default="table", help="output format; jsonl is one JSON object per line"
    )
    parser.add_argument("--device")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.retrieval.search import open_index, search_named

    at_least(1, top=config.top)
    if config.sheet:  # fail before the work, not after it
        if Path(config.sheet).suffix.lower() != ".png":
            raise ValueError(f"expected a PNG file for --sheet, as in found.png, got {config.sheet}")
        require("matplotlib", "plots")
    index = open_index(config.embeddings, config.device)
    results, failed = [], False
    for image, hits in search_named(index, find_images(config.images), config.top):
        if isinstance(hits, ReadError):
            failed = True
            print_error(hits.reason)
        else:
            results.append((image, hits))
    _WRITERS[config.format]([(image.name, hits) for image, hits in results])
    if config.sheet and results:
        from spectral_vmamba.plots.contact_sheet import plot_contact_sheet
        from spectral_vmamba.retrieval.thumbnails import make_thumbnails

        Path(config.sheet).parent.mkdir(parents=True, exist_ok=True)
        plot_contact_sheet(make_thumbnails(index, results)).savefig(config.sheet, dpi=110, format="png")
        print_line(Console(stderr=True), f"wrote {Path(config.sheet)}")
    return 1 if failed else 0


def _write_tables(answers: Iterable) -> None:
    console = table_console()
    for name, hits in answers:
        print_line(console, f"most similar to {name}")
        table = folding_table("", "similarity", "label", "image")
        for hit in hits:
            table.add_row(str(hit.rank), f"{hit.similarity:.4f}", hit.label or "", hit.file)
        print_table(table, console)


def _write_json_lines(answers: Iterable) -> None:
    for name, hits in answers:
        rows = [{"rank": h.rank, "file": h.file, "similarity": h.similarity, "label": h.label} for h in hits]
        print(json.dumps({"query": name, "hits": rows}, ensure_ascii=False), flush=True)


def _write_csv(answers: Iterable) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(["query", "rank", "similarity", "label", "file"])
    for name, hits in answers:
        writer.writerows([name, hit.rank, hit.similarity, hit.label, hit.file] for hit in hits)


_WRITERS: dict[str, Callable[[Iterable], None]] = {
    "table": _write_tables,
    "jsonl": _write_json_lines,
    "csv": _write_csv,
}
