"""Turn pictures into vectors for search and grouping: the same vector whichever quarter turn a picture comes in."""

import sys
from dataclasses import replace

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console

from spectral_vmamba.cli.options import add_fields, settings_from
from spectral_vmamba.cli.progress import bars, tables
from spectral_vmamba.engine.embedding.config import EmbedConfig

_DESCRIPTION = f"""{__doc__}

SOURCE is a folder with pictures at any depth, a .txt with a path a line, a .csv of path,label, a .npz pack, or a data
set's name; - reads names from standard input. Without --checkpoint a pretrained stem speaks; with one, a network of
`spectral-vmamba train`. OUTPUT gets part-00000.parquet, … (file, width, height, label, vector) and facts.json. Stopped,
it goes on when run again. Pictures that cannot be read are listed in broken.txt, and the exit code is 1.
Examples:
  spectral-vmamba embed photos/ -o photos.vectors
  spectral-vmamba embed photos/ -o trained.vectors --checkpoint runs/photos --tokens true
  find . -name '*.tif' | spectral-vmamba embed - -o scans.vectors --format npy
  RAY_ADDRESS=auto spectral-vmamba embed /shared/photos -o /shared/photos.vectors --engine ray
Then: spectral-vmamba search photos.vectors new.jpg"""


def parser() -> ArgumentParser:
    parser = ArgumentParser(description=_DESCRIPTION)
    add_fields(parser, EmbedConfig)
    return parser
