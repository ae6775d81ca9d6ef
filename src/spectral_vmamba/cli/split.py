"""Split a folder of labeled images into training, validation and test images."""

import csv
import os
from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import print_line
from spectral_vmamba.cli.options import CommandParser
from spectral_vmamba.data.readers.folder import read_folder
from spectral_vmamba.data.splits import SplitImages, split_counts, split_fraction, split_fractions
from spectral_vmamba.utils.wording import plural

_DESCRIPTION = f"""{__doc__}

FOLDER contains one folder per class. Writes a .csv with the columns path,label,split for `train --data`; no image is
copied. The same seed gives the same split. The second example is the paper's mini-ImageNet: 100 classes of 600 images,
50,000 for training and 10,000 for validation.

Examples:
  spectral-vmamba split photos/ --val-fraction 0.1 --output photos.csv
  spectral-vmamba split mini-imagenet/ --train-per-class 500 --val-per-class 100 --output mini-imagenet.csv"""


def parser() -> CommandParser:
    parser = CommandParser(description=_DESCRIPTION)
    parser.add_argument("folder", type=str, help="folder with one folder of images per class")
    parser.add_argument("--output", type=str, default="split.csv", help="table to write")
    parser.add_argument(
        "--train-per-class",
        type=int | None,
        default=None,
        help="training images per class; defaults to all that are not used for validation",
    )
    parser.add_argument("--val-per-class", type=int | None, default=None, help="validation images per class")
    parser.add_argument(
        "--val-fraction",
        type=float,
        default=0.2,
        help="fraction of each class for validation; ignored with --val-per-class",
    )
    parser.add_argument(
        "--test-fraction", type=float, default=0.0, help="fraction of each class for a final test; defaults to none"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the shuffle")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing table")
    return parser


def run(config: Namespace) -> int:
    folder, table = Path(config.folder), Path(config.output)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder at {folder}")
    if table.exists() and not config.overwrite:
        raise ValueError(f"{table} already exists; choose another --output, or pass --overwrite")
    images = read_folder(folder).get("all")
    if images is None:
        raise ValueError(f"{folder} is already split into train and val")
    if config.val_per_class is None:
        if config.train_per_class is not None:
            raise ValueError("--train-per-class requires --val-per-class")
        if config.test_fraction:
            parts = split_fractions(images, config.val_fraction, config.test_fraction, config.seed)
        else:
            parts = SplitImages(*split_fraction(images, config.val_fraction, config.seed))
    elif config.test_fraction:
        raise ValueError("--test-fraction requires --val-fraction, not --val-per-class")
    else:
        parts = SplitImages(*split_counts(images, config.train_per_class, config.val_per_class, config.seed))
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["path", "label", "split"])
        for name, part in parts._asdict().items():
            if part is None:
                continue
            for path, label in zip(part.names, part.labels, strict=True):
                writer.writerow([os.path.relpath(folder / path, table.parent), part.classes[label], name])
    train, val, test = parts
    held_out = f", {plural(len(test), 'test image')}" if test is not None else ""
    print_line(
        Console(),
        f"wrote {table}: {plural(len(train), 'training image')}, {plural(len(val), 'validation image')}{held_out}, "
        f"{plural(len(images.classes), 'class', 'classes')}, seed {config.seed}",
    )
    return 0
