"""Embed images as vectors for search and clustering. Rotating an image by a quarter turn does not change its vector."""

import sys

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import print_error, print_line
from spectral_vmamba.cli.options import CommandParser, add_settings, parse_settings
from spectral_vmamba.data.unreadable import UNREADABLE_FILE
from spectral_vmamba.retrieval.embed_config import EmbedConfig
from spectral_vmamba.utils.progress import progress_bars
from spectral_vmamba.utils.wording import plural

_DESCRIPTION = f"""{__doc__}

SOURCE is a folder with images at any depth, a .txt file with one path per line, a .csv file with the columns
path,label, a .npz file or the name of a dataset; - reads paths from standard input. The vectors come from the
pretrained network of --model (--features whole, the default), from its stem (--features stem), or from a network of
`spectral-vmamba train` with --checkpoint.

Writes part-00000.parquet, … (file, width, height, label, vector) and metadata.json to the output folder. Run the same
command again to resume an interrupted run. Unreadable images are listed in unreadable.txt, and the exit code is 1.

Examples:
  spectral-vmamba embed photos/ --output photos.vectors
  spectral-vmamba embed photos/ --output trained.vectors --checkpoint runs/photos --tokens
  find . -name '*.tif' | spectral-vmamba embed - --output scans.vectors --format npy
  RAY_ADDRESS=auto spectral-vmamba embed /shared/photos --output /shared/photos.vectors --engine ray

Then search: spectral-vmamba search photos.vectors new.jpg"""


def parser() -> CommandParser:
    parser = CommandParser(description=_DESCRIPTION)
    parser.add_argument(
        "source", type=str, help="images: a folder, a .txt, .csv or .npz file, a dataset name, or - for standard input"
    )
    add_settings(parser, EmbedConfig, skip=("source",))
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.data.sources import read_named_images
    from spectral_vmamba.retrieval import embed

    settings = parse_settings(EmbedConfig, config)
    names = [line.strip() for line in sys.stdin if line.strip()] if settings.source == "-" else None
    if names == []:
        raise ValueError("expected paths of images on standard input, got none")
    console, errors = Console(), Console(stderr=True)
    with progress_bars(console) as progress:
        done = embed(settings, None if names is None else read_named_images(names), progress)
    for error in done.unreadable[:10]:
        print_error(error.reason)
    if done.unreadable:
        path = done.folder / UNREADABLE_FILE
        print_line(errors, f"{plural(len(done.unreadable), 'image')} could not be read; see {path}")
    if not done.quarter_turn_invariant:
        print_line(errors, "note: this network is not invariant to quarter turns; rotated images have other vectors")
    speed = f"{done.computed / done.seconds:.1f} images/s" if done.computed else "already complete"
    print_line(
        console, f"{plural(done.images, 'image')}, vectors of length {done.vector_length}, {speed}, in {done.folder}"
    )
    return 1 if done.unreadable else 0
