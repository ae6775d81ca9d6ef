"""Measure the IoU, accuracy and boundaries of masks, and how they turn with the images."""

import csv
import json
from dataclasses import asdict
from io import StringIO
from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import folding_table, print_line, print_table
from spectral_vmamba.cli.options import CommandParser, add_evaluation_data
from spectral_vmamba.data.unreadable import summarize_unreadable
from spectral_vmamba.segmentation.mask_evaluation import MaskEvaluation
from spectral_vmamba.segmentation.metrics import MaskScores
from spectral_vmamba.utils.atomic_files import prepare_folder, write_text
from spectral_vmamba.utils.progress import progress_bars
from spectral_vmamba.utils.wording import plural

_DESCRIPTION = f"""{__doc__}

CHECKPOINT is a run folder or a checkpoint of `spectral-vmamba segment train`. By default, the held-out images of the
run are used. With --rotations, images are also rotated by 0 to 360° in steps of that many degrees; the masks are
compared with the labels (IoU) and with the upright mask (agreement), turned alike, inside the inscribed disk. With
--multi-scale, probabilities are also averaged over six scales and mirror images.

Prints tables. With --output, also writes evaluation.json, classes.csv and angles.csv.

Examples:
  spectral-vmamba segment evaluate runs/tiles
  spectral-vmamba segment evaluate runs/tiles --rotations 15 --output report
  spectral-vmamba segment evaluate runs/tiles --data other_tiles/ --multi-scale"""


def parser() -> CommandParser:
    parser = CommandParser(description=_DESCRIPTION)
    parser.add_argument("checkpoint", type=str, help="run folder or checkpoint file")
    add_evaluation_data(parser, "images with masks")
    parser.add_argument(
        "--rotations", type=float | None, default=None, help="degrees between rotations; defaults to no rotations"
    )
    parser.add_argument("--multi-scale", action="store_true", help="also average over scales and mirror images")
    parser.add_argument(
        "--weights",
        choices=["best", "ema", "raw"],
        default="best",
        help="averaged weights (ema), raw weights, or the ones with the better validation IoU (best)",
    )
    parser.add_argument("--workers", type=int, default=0, help="processes that read images")
    parser.add_argument("--device")
    parser.add_argument("--output", type=str | None, default=None, help="folder for the numbers")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.segmentation import evaluate_segmenter

    console = Console()
    if config.output:  # fail before the work, not after it
        prepare_folder(Path(config.output), "output folder")
    with progress_bars(console) as progress:
        evaluation = evaluate_segmenter(
            config.checkpoint,
            config.data,
            config.rotations,
            config.multi_scale,
            config.split,
            config.weights,
            config.device,
            config.workers,
            progress,
        )
    _print(console, evaluation)
    if config.output:
        _write(Path(config.output), evaluation)
        print_line(console, f"wrote {Path(config.output) / 'evaluation.json'}, classes.csv, angles.csv")
    return 0


def _print(console: Console, evaluation: MaskEvaluation) -> None:
    print_line(console, f"{plural(evaluation.images, 'image')}: {evaluation.data}")
    if evaluation.unreadable:
        print_line(console, f"cannot be read, ignored: {summarize_unreadable(evaluation.unreadable)}")
    table = folding_table("", "mean IoU", "pixel accuracy", "boundary F1")
    measured = {"single scale": evaluation.scores, "multi-scale, mirrored": evaluation.multi_scale}
    for name, scores in measured.items():
        if scores is not None:
            table.add_row(name, *_format(scores))
    print_table(table)
    classes = folding_table("class", "IoU")
    for name, iou in zip(evaluation.classes, evaluation.scores.class_iou, strict=True):
        classes.add_row(name, "–" if iou is None else f"{iou:.2%}")
    print_table(classes)
    worst, mean = evaluation.worst, evaluation.mean_iou_of_rotations
    if worst is not None and mean is not None:
        upright, least = evaluation.rotations[0], evaluation.least_agreement
        print_line(
            console,
            f"inside the disk: mean IoU {upright.mean_iou:.2%} upright, {mean:.2%} over "
            f"{plural(len(evaluation.rotations), 'angle')}, {worst.mean_iou:.2%} at {worst.angle:g}°, the worst; "
            f"at least {least:.2%} of the pixels keep their class"
            if least is not None
            else f"inside the disk: mean IoU {upright.mean_iou:.2%}",
        )


def _format(scores: MaskScores) -> tuple[str, str, str]:
    boundary = "–" if scores.boundary_f1 is None else f"{scores.boundary_f1:.2%}"
    return f"{scores.mean_iou:.2%}", f"{scores.pixel_accuracy:.2%}", boundary


def _write(folder: Path, evaluation: MaskEvaluation) -> None:
    write_text(folder / "evaluation.json", json.dumps(asdict(evaluation), indent=1, ensure_ascii=False))
    classes = zip(evaluation.classes, evaluation.scores.class_iou, strict=True)
    write_text(folder / "classes.csv", _csv(["class", "iou"], classes))
    rows = [(each.angle, each.mean_iou, each.agreement) for each in evaluation.rotations]
    write_text(folder / "angles.csv", _csv(["angle", "mean_iou", "agreement"], rows))


def _csv(header, rows) -> str:
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
