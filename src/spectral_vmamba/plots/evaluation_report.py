"""The HTML report of `evaluate`: one page with all figures, tables, mistaken images, and how to make it again."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from spectral_vmamba.inference.evaluation import SELECTION_NOTICE, Evaluation, ImagePrediction
from spectral_vmamba.inference.evaluation_text import (
    SWEEP_HEADINGS,
    describe_worst_class,
    explain_calibration,
    sweep_cells,
)
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.plots.html_report import Matrix, Section, Tile, format_html
from spectral_vmamba.plots.rotation_plots import plot_polar, plot_sweeps
from spectral_vmamba.plots.training_plots import LABELED_CLASSES, plot_confusion
from spectral_vmamba.utils.wording import plural

_MISTAKES = 48
_CONFUSIONS = 20
_SIDE = 160


def make_evaluation_report(evaluations: Sequence[Evaluation], command: str, seconds: float) -> str:
    """Return the page. `command` makes it again; `seconds` is how long everything took."""
    first = evaluations[0]
    title = f"Evaluation of {'; '.join(dict.fromkeys(each.name for each in evaluations))}"
    data = "; ".join(dict.fromkeys(each.data for each in evaluations))
    introduction = (
        f"{plural(first.scores.images, 'image')} of {plural(len(first.classes), 'class', 'classes')}: {data}."
    )
    sections = [_summary(evaluations), *_rotations(evaluations)]
    for each in evaluations:
        heading = f" ({each.name})" if len(evaluations) > 1 else ""
        sections += [
            _classes(each, heading),
            _confusion(each, heading),
            _mistakes(each, heading),
            Section(f"Calibration{heading}", [explain_calibration(each)]),
        ]
    sections.append(_reproduction(evaluations, command, seconds))
    return format_html(title, introduction, sections)


def _summary(evaluations: Sequence[Evaluation]) -> Section:
    top5 = any(len(each.classes) > 5 for each in evaluations)
    heading = ["", "images", "mistakes", "top-1", *(["top-5"] * top5), "mean confidence", "worst class"]
    rows = [
        [
            each.name,
            f"{each.scores.images:,}",
            f"{len(each.mistakes):,}",
            f"{each.scores.top1:.2%}",
            *([f"{each.scores.top5:.2%}"] * top5),
            f"{each.mean_confidence:.1%}",
            describe_worst_class(each),
        ]
        for each in evaluations
    ]
    unreadable = sum(len(each.unreadable) for each in evaluations[:1])
    paragraphs = [f"{plural(unreadable, 'unreadable image')} skipped."] if unreadable else []
    warning = SELECTION_NOTICE if any(each.selected_epoch for each in evaluations) else ""
    return Section("Summary, upright images", paragraphs, [heading, *rows], warning=warning)


def _rotations(evaluations: Sequence[Evaluation]) -> list[Section]:
    sweeps = [sweep for each in evaluations for sweep in each.sweeps]
    if not sweeps:
        return []
    heading, rows = ["", *SWEEP_HEADINGS], [[sweep.name, *sweep_cells(sweep)] for sweep in sweeps]
    explanation = (
        "Flips: predictions at 90/180/270° that differ from those at 0°. Agreement: share of predictions that do not "
        "differ. Quarter turns are exact, other angles bilinear. Lines with equal values are drawn once, with a label "
        "“A = B”. The axes do not start at 0."
    )
    figures = [
        (plot_sweeps(sweeps, "Rotated images"), "Left: accuracy. Right: same prediction as upright."),
        (plot_polar(sweeps), "Accuracy around the circle."),
    ]
    return [Section("Rotated images", [explanation], [heading, *rows], figures)]


def _classes(evaluation: Evaluation, heading: str) -> Section:
    measured = [(i, scores) for i, scores in enumerate(evaluation.class_scores) if scores.images]
    measured.sort(key=lambda pair: (pair[1].f1 or 0.0, pair[0]))
    table = [["class", "images", "precision", "recall", "F1", *(["worst angle"] * bool(evaluation.sweeps))]]
    for i, scores in measured:
        row = [
            evaluation.classes[i],
            f"{scores.images:,}",
            *map(_percent, (scores.precision, scores.recall, scores.f1)),
        ]
        if evaluation.sweeps:
            row.append(_worst_angle(evaluation, i, scores.images))
        table.append(row)
    paragraphs = ["Worst F1 first." if evaluation.mistakes else "Every image of every class is classified correctly."]
    if missing := len(evaluation.classes) - len(measured):
        paragraphs.append(f"{plural(missing, 'class', 'classes')} without images: not listed.")
    return Section(f"Classes{heading}", paragraphs, table)


def _worst_angle(evaluation: Evaluation, label: int, images: int) -> str:
    correct = {point.angle: point.correct_per_class[label] for point in evaluation.sweeps[0].points}
    angle = min(correct, key=lambda angle: correct[angle])
    where = "every angle" if len(set(correct.values())) == 1 else f"{angle:g}°"
    return f"{correct[angle] / images:.1%} at {where}"


def _confusion(evaluation: Evaluation, heading: str) -> Section:
    title, counts = f"Confusion matrix{heading}", np.array(evaluation.scores.confusion)
    explanation = "Rows: true class. Columns: predicted class. Cells: images, colored by their share of the row."
    if len(evaluation.classes) <= LABELED_CLASSES:
        return Section(title, [explanation], matrix=Matrix(evaluation.classes, counts))
    off_diagonal = counts - np.diag(counts.diagonal())
    order = np.argsort(-off_diagonal, axis=None, kind="stable")[:_CONFUSIONS]
    pairs = [(int(i), int(j)) for i, j in zip(*np.unravel_index(order, counts.shape), strict=True)]
    rows = [
        [evaluation.classes[i], evaluation.classes[j], str(off_diagonal[i, j])] for i, j in pairs if off_diagonal[i, j]
    ]
    table = [["true class", "predicted class", "images"], *rows] if rows else []
    figure = plot_confusion(evaluation.scores, evaluation.classes, "")
    caption = "Classes in the order of classes.csv, by number. The table lists the most frequent confusions."
    return Section(title, [explanation], table, [(figure, caption)])


def _mistakes(evaluation: Evaluation, heading: str) -> Section:
    mistakes = evaluation.mistakes
    title = f"Misclassified images{heading}"
    if not mistakes:
        return Section(title, ["None."])
    shown = mistakes[:_MISTAKES]
    text = f"{plural(len(mistakes), 'upright image is', 'upright images are')} misclassified, the most confident first."
    if len(shown) < len(mistakes):
        text += f" {len(shown)} are shown; images.csv lists the other {len(mistakes) - len(shown):,}."
    return Section(title, [text], gallery=[_tile(evaluation, each) for each in shown])


def _tile(evaluation: Evaluation, mistake: ImagePrediction) -> Tile:
    classes = evaluation.classes
    lines = [mistake.name, f"{classes[mistake.label]} → {classes[mistake.predicted]} ({mistake.probability:.1%})"]
    return Tile(_thumbnail(evaluation, mistake.index), lines)


def _thumbnail(evaluation: Evaluation, index: int) -> Image.Image | None:
    try:
        image = evaluation.images.open(index)
    except (ValueError, OSError):
        return None
    image.thumbnail((_SIDE, _SIDE))
    return image


def _reproduction(evaluations: Sequence[Evaluation], command: str, seconds: float) -> Section:
    environment = measure_environment()
    packages = ", ".join(f"{name} {version}" for name, version in environment.packages.items())
    facts = [
        f"spectral-vmamba {environment.version}, Python {environment.python}, {environment.machine}, "
        f"{plural(environment.threads, 'thread')}, accelerator: {environment.accelerator}. {packages}.",
    ]
    for each in evaluations:
        if each.header is not None:
            split, versions = each.header.split, each.header.versions
            trained_with = ", ".join(f"{name} {version}" for name, version in versions.items())
            facts.append(f"{each.name}: trained on {split.data} with seed {split.seed} ({trained_with}).")
    facts.append(f"The evaluation took {seconds:.0f} s. The command was run in {Path.cwd()}.")
    return Section("How to reproduce", list(dict.fromkeys(facts)), code=command)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"
