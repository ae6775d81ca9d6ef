"""Measure the accuracy and calibration of classifiers, and how rotating the images affects them."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import folding_table, print_line, print_table, table_console
from spectral_vmamba.cli.options import CommandParser
from spectral_vmamba.data.unreadable import summarize_unreadable
from spectral_vmamba.metrics.rotation import Sweep
from spectral_vmamba.ops.turns import FILLS
from spectral_vmamba.utils.extras import require
from spectral_vmamba.utils.progress import progress_bars

if TYPE_CHECKING:
    from spectral_vmamba.inference import Evaluation, Predictor

_DESCRIPTION = f"""{__doc__}

RUNS are run folders or checkpoints of `spectral-vmamba train`; several runs share one table and one plot. To evaluate a
model of timm, pass --model and --data. With --rotations, images are also rotated by 0 to 360° in steps of that many
degrees; multiples of 90° are exact, other angles bilinear. --fill sets what the corners of rotated images show: black
(as in the paper), reflect (the image reflected at its edge) or disk (only the inscribed disk, at every angle).

Prints tables. With --output, also writes evaluation.json and, with --rotations, the plot rotations.png.

Examples:
  spectral-vmamba evaluate runs/photos
  spectral-vmamba evaluate runs/photos --rotations 15 --fill black disk --output report
  spectral-vmamba evaluate --model resnet18 --data photos/ --checkpoint resnet18.safetensors"""


def parser() -> CommandParser:
    parser = CommandParser(description=_DESCRIPTION)
    parser.add_argument("runs", nargs="*", type=str, help="run folders or checkpoint files")
    parser.add_argument(
        "--data", type=str | None, default=None, help="labeled images; defaults to the validation images of the run"
    )
    parser.add_argument(
        "--weights",
        choices=["best", "ema", "raw", "both"],
        default="both",
        help="averaged weights (ema), raw weights, both, or the ones with the better validation accuracy (best)",
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
    parser.add_argument("--device", type=str, default="cpu", help="device to run on: cpu, cuda, …")
    parser.add_argument(
        "--cache",
        action="store_true",
        help="cache the frozen-stem features of the rotated images, so that other runs with the same stem take seconds",
    )
    parser.add_argument(
        "--cache-folder", type=str | None, default=None, help="folder of the cache; defaults to the user's cache folder"
    )
    parser.add_argument("--output", type=str | None, default=None, help="folder for evaluation.json and the plot")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.features import default_cache_folder
    from spectral_vmamba.inference import evaluate

    if not config.runs and not config.model:
        raise ValueError("expected at least one run or checkpoint, or --model")
    if config.batch_size < 1:
        raise ValueError(f"expected --batch-size of at least 1, got {config.batch_size}")
    console = table_console()
    if config.output:  # fail before the work, not after it
        Path(config.output).mkdir(parents=True, exist_ok=True)
        if config.rotations is not None:
            require("matplotlib", "plots")
    evaluations = []
    with progress_bars(console) as progress:
        for predictor in _predictors(config):
            evaluation = evaluate(
                predictor,
                config.data,
                config.rotations,
                config.fill,
                config.batch_size,
                config.workers,
                progress,
                default_cache_folder(config.cache_folder) if config.cache else None,
                partial(print_line, console),
            )
            evaluations.append(evaluation)
    _print(evaluations, console)
    if config.output:
        _write(evaluations, Path(config.output), console)
    return 0


def _predictors(config: Namespace) -> Iterator["Predictor"]:
    from spectral_vmamba.data.sources import read_validation_part
    from spectral_vmamba.inference import load_timm
    from spectral_vmamba.inference.checkpoint import find_checkpoint, load_checkpoint
    from spectral_vmamba.inference.predictor import make_predictor

    for run in config.runs:
        checkpoint = load_checkpoint(find_checkpoint(run))
        chosen: list[Any] = checkpoint.header.available_weights if config.weights == "both" else [config.weights]
        for weights in chosen:
            predictor = make_predictor(checkpoint, weights, config.device)
            yield replace(predictor, name=f"{Path(run).stem}, {_WEIGHTS[weights]} ({predictor.name})")
    if config.model:
        if not config.data:
            raise ValueError("--model requires --data: images to evaluate it on")
        classes = read_validation_part(config.data).classes
        yield load_timm(config.model, classes, config.checkpoint, config.device)


_WEIGHTS = {"ema": "averaged weights", "raw": "raw weights", "best": "best weights"}


def _print(evaluations: Sequence["Evaluation"], console: Console) -> None:
    with_top5 = any(len(each.classes) > 5 for each in evaluations)
    table = folding_table("", "images", "top-1", *(["top-5"] * with_top5), "calibration error", "worst class")
    for each in evaluations:
        scores = each.scores
        share, worst = min((s, name) for s, name in zip(scores.per_class, each.classes, strict=True) if s is not None)
        accuracies = [f"{scores.top1:.2%}", *([f"{scores.top5:.2%}"] * with_top5)]
        table.add_row(
            each.name,
            f"{scores.images:,}",
            *accuracies,
            f"{scores.calibration_error:.2%}",
            f"{share:.2%} ({worst})",
        )
    for data in dict.fromkeys(each.data for each in evaluations):
        print_line(console, f"evaluated on {data}")
    print_table(table, console)
    for each in evaluations:
        if each.unreadable:
            names = summarize_unreadable(each.unreadable)
            print_line(console, f"{len(each.unreadable):,} unreadable images were skipped: {names}")
    sweeps = [sweep for each in evaluations for sweep in each.sweeps]
    if sweeps:
        _print_sweeps(sweeps, console)


def _print_sweeps(sweeps: Sequence[Sweep], console: Console) -> None:
    table = folding_table(
        "rotated", "corners", "at 0°", "at 90/180/270°", "flips", "mean", "worst angle", "least agreement"
    )
    for sweep in sweeps:
        worst = sweep.worst
        table.add_row(
            sweep.name,
            sweep.fill,
            f"{sweep.upright.accuracy:.2%}",
            " ".join(f"{point.accuracy:.2%}" for point in sweep.quarters),
            "/".join(str(point.flips) for point in sweep.quarters),
            f"{sweep.mean_accuracy:.2%}",
            f"{worst.accuracy:.2%} at {worst.angle:g}°",
            f"{min(point.agreement for point in sweep.points):.2%}",
        )
    print_table(table, console)
    print_line(
        console,
        "Flips: predictions at 90/180/270° that differ from those at 0°. Agreement: share of predictions that "
        "do not differ.",
    )


def _write(evaluations: Sequence["Evaluation"], folder: Path, console: Console) -> None:
    numbers = json.dumps([asdict(each) for each in evaluations], indent=1, ensure_ascii=False)
    (folder / "evaluation.json").write_text(numbers + "\n", encoding="utf-8")
    written = [folder / "evaluation.json"]
    sweeps = [sweep for each in evaluations for sweep in each.sweeps]
    if sweeps:
        from spectral_vmamba.plots.rotation_plots import plot_sweeps

        title = f"{evaluations[0].scores.images:,} images of {Path(evaluations[0].data).name}, rotated"
        plot_sweeps(sweeps, title).savefig(folder / "rotations.png", dpi=110)
        written.append(folder / "rotations.png")
    print_line(console, f"wrote {', '.join(map(str, written))}")
