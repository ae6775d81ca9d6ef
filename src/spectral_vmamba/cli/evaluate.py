"""Measure classifiers: accuracy, calibration, and what turning the images does to them."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace
from rich.console import Console
from rich.table import Table

from spectral_vmamba.cli.progress import bars, tables
from spectral_vmamba.metrics.rotation import FILLS

_DESCRIPTION = f"""{__doc__}

Takes checkpoints of `spectral-vmamba train` (or the folders of runs), several for one image; or any of timm's models
by --model, with --checkpoint for its weights. With --rotations, images are turned by 0 to 360° in steps of so many
degrees; quarter turns are exact, others bilinear. The corners that turning leaves: black (as in the paper), reflect
(the image mirrored at its edges), disk (only the inscribed circle is ever shown).
Example: spectral-vmamba evaluate runs/photos --rotations 15 --fill black disk"""


def parser() -> ArgumentParser:
    parser = ArgumentParser(description=_DESCRIPTION)
    parser.add_argument("runs", nargs="*", type=str, help="checkpoints, or folders of runs")
    parser.add_argument("--data", type=str | None, default=None, help="images; those of the run unless given")
    parser.add_argument(
        "--weights",
        choices=["best", "ema", "raw", "both"],
        default="both",
        help="averaged (ema), raw, or best: what validated better",
    )
    parser.add_argument("--model", type=str | None, default=None, help="a model of timm's, in place of a run")
    parser.add_argument("--checkpoint", type=str | None, default=None, help="weights of --model; timm's unless given")
    parser.add_argument("--rotations", type=float | None, default=None, help="degrees between turns; none unless given")
    parser.add_argument("--fill", nargs="+", choices=list(FILLS), default=["black"], help="what corners show")
    parser.add_argument("--batch-size", type=int, default=64, help="images at a time")
    parser.add_argument(
        "--workers", type=int | None, default=None, help="processes: reading (0), or filling the cache (one a core)"
    )
    parser.add_argument("--device", type=str, default="cpu", help="where to run: cpu, cuda, …")
    parser.add_argument(
        "--cache",
        action="store_true",
        help="keep what a frozen stem says about the turned images: other runs with it are then measured in seconds",
    )
    parser.add_argument("--cache-folder", type=str | None, default=None, help="where; the user's own unless given")
    parser.add_argument("-o", "--output", type=str | None, default=None, help="folder for numbers and images")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.features import cache_root
    from spectral_vmamba.inference import evaluate

    if not config.runs and not config.model:
        raise ValueError("name at least one run or checkpoint, or a model by --model")
    if config.batch_size < 1:
        raise ValueError(f"expected --batch-size of at least 1, got {config.batch_size}")
    console = tables()
    if config.output:
        Path(config.output).mkdir(parents=True, exist_ok=True)  # before the work, not after it
    evaluations = []
    with bars(console) as progress:
        for predictor in _predictors(config):
            measured = evaluate(
                predictor,
                config.data,
                config.rotations,
                config.fill,
                config.batch_size,
                config.workers,
                progress,
                cache_root(config.cache_folder) if config.cache else None,
                partial(console.print, markup=False, highlight=False, soft_wrap=True),
            )
            evaluations.append(measured)
    _show(evaluations, console)
    if config.output:
        _write(evaluations, Path(config.output), console)
    return 0


def _predictors(config: Namespace):
    from dataclasses import replace

    from spectral_vmamba.data.sources import validation_data
    from spectral_vmamba.inference import load, load_timm

    for run in config.runs:
        best = load(run, "best", config.device)
        chosen: list[Any] = _available(best) if config.weights == "both" else [config.weights]
        for weights in chosen:
            found = best if weights == "best" else load(run, weights, config.device)
            label = f"{Path(run).stem}, {_WEIGHTS[weights]} ({found.name})"
            yield replace(found, name=label)
    if config.model:
        if not config.data:
            raise ValueError("--model needs --data: images to measure it on")
        classes = validation_data(config.data).classes
        yield load_timm(config.model, classes, config.checkpoint, config.device)


_WEIGHTS = {"ema": "averaged weights", "raw": "raw weights", "best": "best weights"}


def _available(best) -> list[str]:
    return ["ema", "raw"] if best.facts["best"].get("ema") is not None else ["raw"]


def _show(evaluations, console: Console) -> None:
    several = any(len(each.classes) > 5 for each in evaluations)
    table = _folding("", "images", "top-1", *(["top-5"] if several else []), "calibration error", "worst class")
    for each in evaluations:
        scores = each.scores
        share, worst = min((s, name) for s, name in zip(scores.per_class, each.classes, strict=True) if s is not None)
        top5 = [f"{scores.top5:.2%}"] if several else []
        cells = [f"{scores.top1:.2%}", *top5, f"{scores.calibration_error:.2%}", f"{share:.2%} ({worst})"]
        table.add_row(each.name, f"{scores.images:,}", *cells)
    for told in dict.fromkeys(each.data for each in evaluations):
        console.print(f"measured on {told}", markup=False, highlight=False, soft_wrap=True)
    console.print(table, highlight=False)
    for each in evaluations:
        if each.broken:
            some = ", ".join(each.broken[:10]) + (", …" if len(each.broken) > 10 else "")
            console.print(f"cannot be read and left out: {len(each.broken):,} of the images, {some}", markup=False)
    if not any(each.sweeps for each in evaluations):
        return
    turns = _folding("turned", "corners", "at 0°", "at 90/180/270°", "flips there", "mean", "worst", "least agreement")
    for sweep in (sweep for each in evaluations for sweep in each.sweeps):
        worst = sweep.worst
        turns.add_row(
            sweep.name,
            sweep.fill,
            f"{sweep.upright.accuracy:.2%}",
            " ".join(f"{point.accuracy:.2%}" for point in sweep.quarters),
            "/".join(str(point.flips) for point in sweep.quarters),
            f"{sweep.mean_accuracy:.2%}",
            f"{worst.accuracy:.2%} at {worst.angle:g}°",
            f"{min(point.agreement for point in sweep.points):.2%}",
        )
    console.print(turns, highlight=False)
    console.print("Flips: predictions that differ from those of the unturned image; agreement: the share that do not.")


def _folding(*headings: str) -> Table:
    table = Table()
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _write(evaluations, folder: Path, console: Console) -> None:
    from spectral_vmamba.plots.rotation_plots import plot_sweeps

    numbers = json.dumps([asdict(each) for each in evaluations], indent=1, ensure_ascii=False)
    (folder / "evaluation.json").write_text(numbers + "\n", encoding="utf-8")
    written = [folder / "evaluation.json"]
    sweeps = [sweep for each in evaluations for sweep in each.sweeps]
    if sweeps:
        shown = f"{evaluations[0].scores.images:,} images of {Path(evaluations[0].data).name}, turned"
        plot_sweeps(sweeps, shown).savefig(folder / "rotations.png", dpi=110)
        written.append(folder / "rotations.png")
    console.print(f"wrote {', '.join(map(str, written))}", markup=False, highlight=False, soft_wrap=True)
