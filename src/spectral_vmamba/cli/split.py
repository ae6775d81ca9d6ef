"""Divide a folder of images into train and val, so many of every class, the same way every time."""

import csv
import os
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console

from spectral_vmamba.data.readers.folder import read_folder
from spectral_vmamba.data.splits import split_counts, split_fraction

_DESCRIPTION = f"""{__doc__}

Writes a .csv of path,label,split that `train --data` reads; no image is copied. The paper's mini-ImageNet (100
classes, 50,000 to train on and 10,000 to validate on) from its 100 folders of 600 images:
  spectral-vmamba split mini-imagenet/ --train-per-class 500 --val-per-class 100 --output mini-imagenet.csv"""


def parser() -> ArgumentParser:
    parser = ArgumentParser(description=_DESCRIPTION)
    parser.add_argument("folder", type=str, help="one folder for every class in it")
    parser.add_argument("-o", "--output", type=str, default="split.csv", help="the table to write")
    parser.add_argument(
        "--train-per-class", type=int | None, default=None, help="of every class to train on; the rest unless given"
    )
    parser.add_argument("--val-per-class", type=int | None, default=None, help="images of every class to validate on")
    parser.add_argument("--val-fraction", type=float, default=0.2, help="share to validate on, in place of counts")
    parser.add_argument("--seed", type=int, default=0, help="of the shuffle")
    parser.add_argument("--overwrite", action="store_true", help="replace the table if there is one")
    return parser


def run(config: Namespace) -> int:
    folder, table = Path(config.folder), Path(config.output)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder at {folder}")
    if table.exists() and not config.overwrite:
        raise ValueError(f"{table} exists; choose another --output, or --overwrite")
    images = read_folder(folder).get("all")
    if images is None:
        raise ValueError(f"{folder} already has train and val")
    if config.val_per_class is None:
        if config.train_per_class is not None:
            raise ValueError("--train-per-class also needs --val-per-class")
        parts = split_fraction(images, config.val_fraction, config.seed)
    else:
        parts = split_counts(images, config.train_per_class, config.val_per_class, config.seed)
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["path", "label", "split"])
        for name, part in zip(("train", "val"), parts, strict=True):
            for path, label in zip(part.names, part.labels, strict=True):
                writer.writerow([os.path.relpath(folder / path, table.parent), part.classes[label], name])
    train, val = parts
    Console().print(
        f"wrote {table}: {len(train):,} images to train on and {len(val):,} to validate on, "
        f"{len(images.classes)} classes, seed {config.seed}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    return 0
