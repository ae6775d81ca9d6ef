"""Train Spectral VMamba and VMamba on upright handwritten digits, turn the digits, and report what happens."""

import time
from dataclasses import replace
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track

from spectral_vmamba.cli.progress import bars
from spectral_vmamba.data import photographs, resize
from spectral_vmamba.models import SpectralConfig, SpectralTokenizer, stem_normalization
from spectral_vmamba.plots.traversal_plots import measure_traversal, plot_traversals

_DESCRIPTION = f"""{__doc__}

The digits come with scikit-learn, the photographs with scikit-image; nothing is downloaded. Takes about five minutes on
two cores and leaves report.html, which holds everything, with its images beside it. An interrupted demo goes on where
it was; one that has finished is measured again."""
_MODELS = {"spectral_vmamba_nano": "Spectral VMamba nano", "vmamba_nano": "VMamba nano"}
_PICTURES = ("coffee", "immunohistochemistry", "retina", "rocket")


def parser() -> ArgumentParser:
    parser = ArgumentParser(description=_DESCRIPTION)
    parser.add_argument("-o", "--output", type=str, default="demo", help="folder for the report and the runs")
    parser.add_argument("--epochs", type=int, default=15, help="of training, for each model")
    parser.add_argument("--step", type=float, default=15, help="degrees between the measured turns")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the weights and the order")
    return parser


def run(config: Namespace) -> int:
    from spectral_vmamba.plots.comparison_report import comparison_report

    console, folder, began = Console(), Path(config.output), time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    subjects = [_subject(model, label, config, folder, console) for model, label in _MODELS.items()]
    figures, html = comparison_report(
        subjects,
        title="Turning handwritten digits",
        introduction=(
            "Two small networks learned from the same upright digits: 1,438 of the 1,797 that ship with scikit-learn. "
            "Here the other 359 are turned, step by step around the circle. A rotation-invariant network cannot tell "
            "a 6 from a 9 by its position, only by how people write them. Small scale: an idea, no benchmark."
        ),
        traversals=_traversals(console),
        reproduce=f"spectral-vmamba demo --epochs {config.epochs} --step {config.step:g} --seed {config.seed}",
        seconds=time.monotonic() - began,
    )
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", dpi=110)
    (folder / "report.html").write_text(html, encoding="utf-8")
    for subject in subjects:
        console.print(subject.in_words(), markup=False, highlight=False)
    console.print(
        f"wrote {folder / 'report.html'} and {len(figures)} images beside it, in {time.monotonic() - began:.0f} s",
        highlight=False,
        soft_wrap=True,
    )
    return 0


def _subject(model: str, label: str, config: Namespace, folder: Path, console: Console):
    from spectral_vmamba.inference import certify, evaluate, load
    from spectral_vmamba.plots.comparison_report import Subject
    from spectral_vmamba.plots.training_plots import LearningCurve
    from spectral_vmamba.training import Bars, fit, recipe

    console.rule(label)
    run = folder / "runs" / f"{model}-{config.epochs}-epochs-seed-{config.seed}"
    settings = recipe("digits", model=model, epochs=config.epochs, seed=config.seed, output=str(run))
    result = fit(settings, resume=True, reporter=Bars(console))
    # The averaged weights of the last epoch: no choice is made by the images that are then measured.
    predictor = replace(load(run / "last.safetensors", "ema"), name=label)
    with bars(console) as progress:
        measured = evaluate(predictor, rotations=config.step, fills=("black", "disk"), progress=progress)
        certificate = certify(predictor, progress=progress)
    curve = LearningCurve([each.loss for each in result.history], [each.better()[1] for each in result.history])
    return Subject(
        label, predictor.classes, curve, measured.scores, measured.sweeps, certificate.flips, certificate.max_change
    )


def _traversals(console: Console) -> dict[str, Figure]:
    stem = "timm:tf_efficientnet_lite0"
    tokenizer = SpectralTokenizer(SpectralConfig(stem=stem))
    mean, std = stem_normalization(stem)
    images = {title: resize(photographs()[title][None], 224)[0] for title in _PICTURES}
    figures = {}
    for angle in (90.0, 30.0):
        pairs = [
            measure_traversal(tokenizer, image, angle, mean, std, title)
            for title, image in track(images.items(), f"traversals at {angle:g}°", console=console, transient=True)
        ]
        figures[f"traversal_{angle:g}"] = plot_traversals(pairs)
    return figures
