"""Rotate handwritten digits: first with a network that ships with the package, then with four that are trained here."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace
from rich.console import Console

from spectral_vmamba.cli.console import print_line
from spectral_vmamba.cli.options import CommandParser
from spectral_vmamba.metrics.traversal_gap import TraversalPair
from spectral_vmamba.utils.progress import progress_bars

if TYPE_CHECKING:
    from spectral_vmamba.metrics.rotation import Sweep
    from spectral_vmamba.plots.comparison_report import MeasuredClassifier

_DESCRIPTION = f"""{__doc__}

The network that ships with the package is measured in seconds: shipped.png. Then Spectral VMamba and VMamba are trained
on upright digits, with and without the frame moment, which takes a few minutes on two cores. The digits are included in
scikit-learn and the photographs in scikit-image; nothing is downloaded. Writes report.html, which embeds all figures,
and the figures as PNG files. Run the same command again to resume an interrupted demo, or to measure a finished one
again.

Example:
  spectral-vmamba demo --output demo"""
_DATA = "digits"
_SHIPPED = "spectral_vmamba_nano.digits"
_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Spectral VMamba nano, frame moment": ("spectral_vmamba_nano", {"frame": "moment"}),
    "Spectral VMamba nano": ("spectral_vmamba_nano", {}),
    "VMamba nano, frame moment": ("vmamba_nano", {"frame": "moment"}),
    "VMamba nano": ("vmamba_nano", {}),
}


def parser() -> CommandParser:
    parser = CommandParser(description=_DESCRIPTION)
    parser.add_argument("--output", type=str, default="demo", help="folder for the report and the runs")
    parser.add_argument("--epochs", type=int, default=15, help="training epochs of each model")
    parser.add_argument("--step", type=float, default=15, help="degrees between rotations")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split, the weights and the data order")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.plots.comparison_report import make_comparison_report

    console, folder, start = Console(), Path(config.output), time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    shipped = _measure_shipped(config, folder, console)
    classifiers = [_train_and_measure(label, config, folder, console) for label in _MODELS]
    figures, html = make_comparison_report(
        classifiers,
        title="Rotating handwritten digits",
        introduction=(
            "Four small networks were trained on the same upright digits: 1,438 of the 1,797 that are included in "
            "scikit-learn. The other 359 are rotated here in steps around the circle. The frame “moment” turns every "
            "image so that its brightness centroid points up, in training and in use. Spectral VMamba without it has "
            "the frame “quarter”, its default; VMamba has none. A rotation-invariant network cannot tell a 6 from a 9 "
            "by its orientation, only by how people write them. This is a small-scale illustration, not a benchmark."
        ),
        shipped=shipped,
        traversals=_measure_traversals(console),
        reproduce=f"spectral-vmamba demo --epochs {config.epochs} --step {config.step:g} --seed {config.seed}",
        seconds=time.monotonic() - start,
    )
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", dpi=110)
    (folder / "report.html").write_text(html, encoding="utf-8")
    for classifier in classifiers:
        print_line(console, classifier.summarize())
    seconds = time.monotonic() - start
    print_line(console, f"wrote {folder / 'report.html'} and {len(figures)} figures next to it, in {seconds:.0f} s")
    return 0


def _measure_shipped(config: Namespace, folder: Path, console: Console) -> "Sweep":
    """A result before anything is trained, on the same images as those of the networks of seed 0."""
    from spectral_vmamba.inference import evaluate, load
    from spectral_vmamba.plots.comparison_report import describe_sweep
    from spectral_vmamba.plots.rotation_plots import plot_sweeps
    from spectral_vmamba.training import recipe

    console.rule(_SHIPPED)
    predictor = replace(load(_SHIPPED), name=_SHIPPED)
    held_out = recipe("digits", data=_DATA).split.read().val
    with progress_bars(console) as progress:
        sweep = evaluate(predictor, held_out, config.step, progress=progress).sweeps[0]
    plot_sweeps([sweep]).savefig(folder / "shipped.png", dpi=110)
    print_line(
        console,
        f"{sweep.upright.images} digits: {describe_sweep(sweep)}; wrote {folder / 'shipped.png'}\n"
        "now four networks are trained, with and without the frame moment",
    )
    return sweep


def _train_and_measure(label: str, config: Namespace, folder: Path, console: Console) -> "MeasuredClassifier":
    from spectral_vmamba.inference import certify, evaluate, load
    from spectral_vmamba.plots.comparison_report import MeasuredClassifier
    from spectral_vmamba.plots.training_plots import LearningCurve
    from spectral_vmamba.training import TerminalReporter, fit, recipe

    console.rule(label)
    model, options = _MODELS[label]
    run = folder / "runs" / f"{label.lower().replace(' ', '_')}-{config.epochs}-epochs-seed-{config.seed}"
    settings = recipe(
        "digits",
        data=_DATA,
        model=model,
        model_options=options,
        epochs=config.epochs,
        seed=config.seed,
        output=str(run),
    )
    result = fit(settings, resume=True, reporter=TerminalReporter(console))
    # The averaged weights of the last epoch: the images that are measured do not select the weights.
    predictor = replace(load(run / "last.safetensors", "ema"), name=label)
    with progress_bars(console) as progress:
        evaluation = evaluate(predictor, rotations=config.step, fill=("black",), progress=progress)
        certificate = certify(predictor, progress=progress, levels=("tensor", "no-frame"))
    curve = LearningCurve([each.loss for each in result.history], [each.better_weights()[1] for each in result.history])
    return MeasuredClassifier(label, predictor.classes, curve, evaluation.scores, evaluation.sweeps, certificate)


def _measure_traversals(console: Console) -> dict[str, list[TraversalPair]]:
    from spectral_vmamba.studies.traversal_study import ANGLES, photograph_traversals

    with progress_bars(console) as progress:
        return {f"traversal_{angle:g}": photograph_traversals(angle, progress=progress) for angle in ANGLES}
