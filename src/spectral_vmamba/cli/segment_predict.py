"""Segment images and write masks, overlays, polygons and areas."""

import sys
from pathlib import Path
from typing import get_args

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import print_error, print_line
from spectral_vmamba.cli.options import CommandParser, add_settings, parse_settings
from spectral_vmamba.data.find import find_images
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.segmentation.predict_files import OutputFormat, PredictOptions, predict_files
from spectral_vmamba.utils.progress import progress_bars
from spectral_vmamba.utils.wording import plural

_DESCRIPTION = f"""{__doc__}

IMAGES are files, folders, glob patterns, or - to read paths from standard input. Writes to the output folder: masks/
(PNG, the size of the image, with the colors of the classes), overlays/, polygons/, coco.json and areas.csv, as
--formats says. Large images are segmented in overlapping windows. Unreadable images are reported on standard error, the
others are segmented, and the exit code is 1.

Examples:
  spectral-vmamba segment predict runs/tiles new/*.jpg --output masks
  spectral-vmamba segment predict runs/tiles field.tif --output field --formats mask geojson areas --min-area 50"""


def parser() -> CommandParser:
    parser = CommandParser(description=_DESCRIPTION)
    parser.add_argument("checkpoint", type=str, help="run folder or checkpoint file")
    parser.add_argument(
        "images", nargs="+", type=str, help="files, folders or glob patterns; - reads paths from standard input"
    )
    add_settings(parser, PredictOptions, skip=("formats",))
    parser.add_argument(
        "--formats",
        nargs="+",
        choices=get_args(OutputFormat),
        default=["mask", "overlay"],
        help="mask: class ids as a PNG with the colors of the classes, and as a GeoTIFF if the image is georeferenced; "
        "overlay: the image with the classes as colors and a legend; geojson: polygons of each image; coco: polygons "
        "of all images in one file; areas: pixels of each class as a CSV",
    )
    parser.add_argument(
        "--weights",
        choices=["best", "ema", "raw"],
        default="best",
        help="averaged weights (ema), raw weights, or the ones with the better validation IoU (best)",
    )
    parser.add_argument("--device")
    parser.add_argument("--allow-urls", action="store_true", help="also accept http(s) URLs and download them")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.segmentation import load_segmenter

    options = parse_settings(PredictOptions, config)
    segmenter = load_segmenter(config.checkpoint, config.weights, config.device)
    names = config.images
    if "-" in names:
        names = [name for name in names if name != "-"] + [line.strip() for line in sys.stdin if line.strip()]
    images = list(find_images(names, config.allow_urls))
    console, failed, done = Console(stderr=True), 0, 0
    with progress_bars(console) as progress:
        for outcome in predict_files(segmenter, images, options, progress):
            if isinstance(outcome, ReadError):
                failed += 1
                print_error(outcome.reason)
            else:
                done += 1
    print_line(Console(), f"segmented {plural(done, 'image')}; wrote {Path(options.output)}")
    return 1 if failed else 0
