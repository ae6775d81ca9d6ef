"""Find the images of an embedded collection that are most like a given one, however it is turned."""

import csv
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.table import Table

from spectral_vmamba.cli.progress import tables
from spectral_vmamba.data.find import find_images

_DESCRIPTION = f"""{__doc__}

EMBEDDINGS is a folder that `spectral-vmamba embed` wrote; its network is used for the image, too. Similarities are
cosines: 1 for the same image, also when turned by 90, 180 or 270°. Several images may be given; those that cannot
be read are reported on standard error, the others are answered, and the exit code is 1.
Examples:
  spectral-vmamba search photos.vectors new.jpg --sheet found.png
  spectral-vmamba search photos.vectors new/*.jpg --top 1 --format csv > nearest.csv"""


def parser() -> ArgumentParser:
    parser = ArgumentParser(description=_DESCRIPTION)
    parser.add_argument("embeddings", type=str, help="the output folder of embed")
    parser.add_argument("images", nargs="+", type=str, help="files, folders, patterns")
    parser.add_argument("--top", type=int, default=10, help="images to find for each")
    parser.add_argument("--sheet", type=str | None, default=None, help="a PNG to write, with what was found")
    parser.add_argument("--format", choices=list(_WRITERS), default="table", help="jsonl is one JSON object a line")
    parser.add_argument("--device", type=str, default="cpu", help="where to run: cpu, cuda, …")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.retrieval.search import nearest, open_index

    if config.top < 1:
        raise ValueError(f"expected --top of at least 1, got {config.top}")
    if config.sheet:
        Path(config.sheet).parent.mkdir(parents=True, exist_ok=True)
    index = open_index(config.embeddings, config.device)
    errors = Console(stderr=True)
    names, vectors, failed = [], [], False
    for name, image in find_images(config.images):
        try:
            if isinstance(image, Exception):
                raise image
            vectors.append(index.vector(image))
            names.append(name)
        except (ValueError, OSError) as error:
            failed = True
            errors.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
    answers = list(zip(names, nearest(index, vectors, config.top), strict=True))
    _WRITERS[config.format](answers)
    if config.sheet and answers:
        from spectral_vmamba.plots.contact_sheet import plot_contact_sheet
        from spectral_vmamba.retrieval.thumbnails import found_images

        plot_contact_sheet(found_images(index, answers)).savefig(config.sheet, dpi=110, format="png")
        errors.print(f"wrote {Path(config.sheet)}", markup=False, highlight=False, soft_wrap=True)
    return 1 if failed else 0


def _table(answers: Iterable) -> None:
    for name, hits in answers:
        table = Table(title=f"most like {name}", title_justify="left")
        for heading in ("", "similarity", "label", "image"):
            table.add_column(heading, overflow="fold")
        for hit in hits:
            table.add_row(str(hit.rank), f"{hit.similarity:.4f}", hit.label or "", hit.file)
        tables().print(table, highlight=False, markup=False)


def _json_lines(answers: Iterable) -> None:
    for name, hits in answers:
        found = [{"rank": h.rank, "file": h.file, "similarity": h.similarity, "label": h.label} for h in hits]
        print(json.dumps({"query": name, "hits": found}, ensure_ascii=False), flush=True)


def _csv(answers: Iterable) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(["query", "rank", "similarity", "label", "file"])
    for name, hits in answers:
        writer.writerows([name, hit.rank, hit.similarity, hit.label, hit.file] for hit in hits)


_WRITERS: dict[str, Callable[[Iterable], None]] = {"table": _table, "jsonl": _json_lines, "csv": _csv}
