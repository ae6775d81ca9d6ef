"""Turn images into vectors for search and grouping: the same vector whichever quarter turn a image comes in."""

import sys

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console

from spectral_vmamba.cli.options import settings_from
from spectral_vmamba.cli.progress import bars

_DESCRIPTION = f"""{__doc__}

SOURCE is a folder with images at any depth, a .txt with a path a line, a .csv of path,label, a .npz pack, or a data
set's name; - reads names from standard input. Without --checkpoint a pretrained stem speaks; with one, a network of
`spectral-vmamba train`. OUTPUT gets part-00000.parquet, … (file, width, height, label, vector) and facts.json. Stopped,
it goes on when run again. ImageDataset that cannot be read are listed in broken.txt, and the exit code is 1.
Examples:
  spectral-vmamba embed photos/ -o photos.vectors
  spectral-vmamba embed photos/ -o trained.vectors --checkpoint runs/photos --tokens
  find . -name '*.tif' | spectral-vmamba embed - -o scans.vectors --format npy
  RAY_ADDRESS=auto spectral-vmamba embed /shared/photos -o /shared/photos.vectors --engine ray
Then: spectral-vmamba search photos.vectors new.jpg"""


def parser() -> ArgumentParser:
    parser = ArgumentParser(description=_DESCRIPTION)
    add = parser.add_argument
    add("source", type=str, help="images: a folder, a .txt, .csv or .npz file, a name; - reads names from stdin")
    add("-o", "--output", type=str, required=True, help="folder for the vectors; a stopped run goes on in it")
    add("--checkpoint", type=str | None, default=None, help="a run of train, or its checkpoint; the stem unless given")
    add("--model", type=str, default="spectral_vmamba_lite", help="whose pretrained stem, where no checkpoint is given")
    add("--format", choices=["parquet", "npy"], default="parquet", help="npy is vectors.npy and images.csv")
    add("--tokens", action="store_true", help="also keep the features of every token, and its cell in the image")
    add("--shard-size", type=int, default=4096, help="images a file: what may be computed again when going on")
    add("--batch-size", type=int, default=64, help="images read at a time")
    add("--workers", type=int | None, default=None, help="processes: reading (local: 0), embedding (ray: one a CPU)")
    add("--device", type=str, default="cpu", help="where to run: cpu, cuda, …")
    add("--image-size", type=int | None, default=None, help="pixels a side that the network sees; its own unless given")
    add("--engine", choices=["local", "ray"], default="local", help="ray: over the machines of a Ray cluster")
    add("--overwrite", action="store_true", help="begin anew in a folder that holds other embeddings")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.data.collection import found_collection
    from spectral_vmamba.retrieval import EmbedConfig, embed

    settings = settings_from(EmbedConfig, config)
    named = [line.strip() for line in sys.stdin if line.strip()] if settings.source == "-" else None
    if named == []:
        raise ValueError("no images are named on standard input")
    console, errors = Console(), Console(stderr=True)
    with bars(console) as progress:
        done = embed(settings, None if named is None else found_collection(named), progress)
    for _, reason in done.broken[:10]:
        errors.print(f"error: {reason}", style="red", markup=False, highlight=False, soft_wrap=True)
    if done.broken:
        rest = f"{len(done.broken)} images cannot be read; all are in {done.folder / 'broken.txt'}"
        errors.print(rest, markup=False, highlight=False, soft_wrap=True)
    if not done.quarter_turns_change_nothing:
        note = "note: this network does not promise the same vectors for turned images"
        errors.print(note, markup=False, highlight=False, soft_wrap=True)
    speed = f"{done.computed / done.seconds:.1f} images/s" if done.computed else "all there already"
    console.print(
        f"{done.images:,} images, vectors of length {done.vector_length}, {speed}, in {done.folder}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    return 1 if done.broken else 0
