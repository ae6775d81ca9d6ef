"""Measure the accuracy and calibration of classifiers, and how rotating the images affects them."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import folding_table, print_line, print_table, table_console
from spectral_vmamba.cli.options import CommandParser, add_evaluation_data
from spectral_vmamba.data.unreadable import summarize_unreadable
from spectral_vmamba.metrics.rotation import Sweep
from spectral_vmamba.ops.turns import FILLS
from spectral_vmamba.utils.extras import require
from spectral_vmamba.utils.progress import progress_bars
from spectral_vmamba.utils.wording import plural

if TYPE_CHECKING:
    from spectral_vmamba.inference import Evaluation, Predictor

_DESCRIPTION = f"""{__doc__}

RUNS are run folders or checkpoints of `spectral-vmamba train`; several runs share one table and one report. To evaluate
a model of timm, pass --model and --data. With --rotations, images are also rotated by 0 to 360° in steps of that many
degrees; multiples of 90° are exact, other angles bilinear. --fill sets what the corners of rotated images show: black
(as in the paper), reflect (the image reflected at its edge) or disk (only the inscribed disk, at every angle).

Prints tables. With --output, also writes report.html, one page with all figures, the classes and the misclassified
images, and the numbers: evaluation.json, images.csv, classes.csv and angles.csv.

Examples:
  spectral-vmamba evaluate runs/photos
  spectral-vmamba evaluate runs/photos --rotations 15 --output runs/photos/report
  spectral-vmamba evaluate runs/photos --data new_photos/ --weights all --fill black disk
  spectral-vmamba evaluate --model resnet18 --data photos/ --checkpoint resnet18.safetensors"""


def parser() -> CommandParser:
    parser = CommandParser(description=_DESCRIPTION)
    parser.add_argument("runs", nargs="*", type=str, help="run folders or checkpoint files")
    add_evaluation_data(parser, "labeled images")
    parser.add_argument(
        "--weights",
        choices=["best", "ema", "raw", "all"],
        default="best",
        help="the weights with the better validation accuracy (best), averaged (ema), raw, or both (all)",
    )
    parser.add_argument("--model", type=str | None, default=None, help="name of a timm model to evaluate")
    parser.add_argument(
        "--checkpoint", type=str | None, default=None, help="weights file for --model; defaults to timm's weights"
    )
    parser.add_argument(
        "--rotations", type=float | None, default=None, help="degrees between rotations; defaults to no rotations"
    )
    parser.add_argument(
        "--fill", nargs="+", choices=list(FILLS), default=["black"], help="corners of rotated images; one or more"
    )
    parser.add_argument("--batch-size", type=int, default=64, help="images per batch")
    parser.add_argument(
        "--workers",
        type=int | None,
        default=None,
        help="processes that read images (default: 0) or fill the cache (default: one per core)",
    )
    parser.add_argument("--device")
    parser.add_argument(
        "--cache",
        type=bool,
        default=None,
        help="cache the frozen-stem features of the rotated images; defaults to the setting of the training run",
    )
    parser.add_argument(
        "--cache-folder",
        type=str | None,
        default=None,
        help="folder of the cache; defaults to that of the training run, or to a folder in the user's cache folder",
    )
    parser.add_argument("--output", type=str | None, default=None, help="folder for the report and the numbers")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.inference import evaluate_all

    if not config.runs and not config.model:
        raise ValueError("expected at least one run or checkpoint, or --model")
    start, console = time.monotonic(), table_console()
    if config.output:  # fail before the work, not after it
        Path(config.output).mkdir(parents=True, exist_ok=True)
        require("matplotlib", "plots")
    with progress_bars(console) as progress:
        evaluations = evaluate_all(
            _load_predictors(config),
            config.data,
            config.rotations,
            config.fill,
            config.cache,
            config.cache_folder,
            config.split,
            config.batch_size,
            config.workers,
            progress,
            partial(print_line, console),
        )
    _print(evaluations, console)
    if config.output:
        _write(evaluations, config, time.monotonic() - start, console)
    return 0


def _load_predictors(config: Namespace) -> list["Predictor"]:
    from spectral_vmamba.data.sources import read_evaluation_part
    from spectral_vmamba.inference import load_timm
    from spectral_vmamba.inference.checkpoint import find_checkpoint, load_checkpoint
    from spectral_vmamba.inference.predictor import make_predictor

    predictors = []
    for run in config.runs:
        checkpoint = load_checkpoint(find_checkpoint(run))
        chosen: list[Any] = checkpoint.header.available_weights if config.weights == "all" else [config.weights]
        for weights in chosen:
            predictor = make_predictor(checkpoint, weights, config.device)
            predictors.append(replace(predictor, name=f"{Path(run).stem}, {_WEIGHTS[weights]} ({predictor.name})"))
    if config.model:
        if not config.data:
            raise ValueError("--model requires --data: images to evaluate it on")
        classes = read_evaluation_part(config.data, config.split).classes
        predictors.append(load_timm(config.model, classes, config.checkpoint, config.device))
    return predictors


_WEIGHTS = {"ema": "averaged weights", "raw": "raw weights", "best": "best weights"}


def _print(evaluations: Sequence["Evaluation"], console: Console) -> None:
    from spectral_vmamba.inference.evaluation import SELECTION_NOTICE
    from spectral_vmamba.inference.evaluation_text import describe_worst_class, explain_calibration

    with_top5 = any(len(each.classes) > 5 for each in evaluations)
    table = folding_table(
        "", "images", "top-1", *(["top-5"] * with_top5), "confidence", "calibration error", "worst class"
    )
    for each in evaluations:
        scores = each.scores
        accuracies = [f"{scores.top1:.2%}", *([f"{scores.top5:.2%}"] * with_top5)]
        table.add_row(
            each.name,
            f"{scores.images:,}",
            *accuracies,
            f"{each.mean_confidence:.2%}",
            f"{scores.calibration_error:.2%}",
            describe_worst_class(each),
        )
    for data in dict.fromkeys(each.data for each in evaluations):
        print_line(console, f"evaluated on {data}")
    if any(each.selected_epoch for each in evaluations):
        print_line(console, SELECTION_NOTICE)
    print_table(table, console)
    for each in evaluations:
        print_line(console, explain_calibration(each))
        if each.unreadable:
            names = summarize_unreadable(each.unreadable)
            skipped = plural(len(each.unreadable), "unreadable image was", "unreadable images were")
            print_line(console, f"{skipped} skipped: {names}")
    sweeps = [sweep for each in evaluations for sweep in each.sweeps]
    if sweeps:
        _print_sweeps(sweeps, console)


def _print_sweeps(sweeps: Sequence[Sweep], console: Console) -> None:
    from spectral_vmamba.inference.evaluation_text import SWEEP_HEADINGS, sweep_cells

    table = folding_table("rotated", *SWEEP_HEADINGS)
    for sweep in sweeps:
        table.add_row(sweep.name, *sweep_cells(sweep))
    print_table(table, console)
    print_line(
        console,
        "Flips: predictions at 90/180/270° that differ from those at 0°. Agreement: share of predictions that "
        "do not differ.",
    )


def _write(evaluations: Sequence["Evaluation"], config: Namespace, seconds: float, console: Console) -> None:
    from spectral_vmamba.inference.evaluation_files import write_evaluations
    from spectral_vmamba.plots.evaluation_report import make_evaluation_report
    from spectral_vmamba.utils.atomic_files import write_text

    folder = Path(config.output)
    report = folder / "report.html"
    numbers = write_evaluations(evaluations, folder)
    write_text(report, make_evaluation_report(evaluations, _format_command(config), seconds))
    print_line(console, f"wrote {report}, {', '.join(path.name for path in numbers)}")


def _format_command(config: Namespace) -> str:
    """The command line with these settings, without those that are defaults."""
    defaults, words = parser().get_defaults(), ["spectral-vmamba", "evaluate", *config.runs]
    for name, value in config.items():
        option = f"--{name.replace('_', '-')}"
        if name == "runs" or value == defaults[name]:
            continue
        if isinstance(value, bool):
            words.append(option if value else f"--no-{name}")
        else:
            words += [
                option,
                *(value if isinstance(value, list) else [f"{value:g}" if isinstance(value, float) else str(value)]),
            ]
    return shlex.join(words)
