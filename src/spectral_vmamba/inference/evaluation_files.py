"""The numbers of evaluations as files: one JSON file with all scores, and tables of images, classes and angles."""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

from spectral_vmamba.inference.evaluation import Evaluation
from spectral_vmamba.utils.atomic_files import write_text

JSON_FILE, IMAGES_FILE, CLASSES_FILE, ANGLES_FILE = "evaluation.json", "images.csv", "classes.csv", "angles.csv"


def write_evaluations(evaluations: Sequence[Evaluation], folder: Path) -> list[Path]:
    """Write the files and return their paths. `angles.csv` is written only if rotations were measured."""
    numbers = json.dumps([_to_dict(each) for each in evaluations], indent=1, ensure_ascii=False)
    texts = {
        JSON_FILE: numbers + "\n",
        IMAGES_FILE: _format_csv(
            ["classifier", "image", "class", "predicted", "correct", "probability", "class_probability"],
            (row for each in evaluations for row in _image_rows(each)),
        ),
        CLASSES_FILE: _format_csv(
            ["classifier", "class", "images", "predicted", "correct", "precision", "recall", "f1"],
            (row for each in evaluations for row in _class_rows(each)),
        ),
    }
    if any(each.sweeps for each in evaluations):
        texts[ANGLES_FILE] = _format_csv(
            ["classifier", "fill", "angle", "images", "correct", "accuracy", "agreement", "max_change"],
            (row for each in evaluations for row in _angle_rows(each)),
        )
    for name, text in texts.items():
        write_text(folder / name, text.encode("utf-8", "backslashreplace").decode())
    return [folder / name for name in texts]


def _to_dict(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "name": evaluation.name,
        "data": evaluation.data,
        "selected_epoch": evaluation.selected_epoch,
        "classes": list(evaluation.classes),
        "scores": asdict(evaluation.scores),
        "mean_confidence": evaluation.mean_confidence,
        "label_smoothing": evaluation.label_smoothing,
        "sweeps": [asdict(sweep) for sweep in evaluation.sweeps],
        "mistakes": [asdict(each) for each in evaluation.mistakes],
        "unreadable": [asdict(error) for error in evaluation.unreadable],
    }


def _image_rows(evaluation: Evaluation) -> Iterable[list[Any]]:
    for each in evaluation.predictions:
        names = [evaluation.classes[each.label], evaluation.classes[each.predicted], int(each.is_correct)]
        yield [evaluation.name, each.name, *names, f"{each.probability:.6f}", f"{each.label_probability:.6f}"]


def _class_rows(evaluation: Evaluation) -> Iterable[list[Any]]:
    for name, scores in zip(evaluation.classes, evaluation.class_scores, strict=True):
        rates = ["" if rate is None else f"{rate:.6f}" for rate in (scores.precision, scores.recall, scores.f1)]
        yield [evaluation.name, name, scores.images, scores.predicted, scores.correct, *rates]


def _angle_rows(evaluation: Evaluation) -> Iterable[list[Any]]:
    for sweep in evaluation.sweeps:
        for point in sweep.points:
            shares = [f"{point.accuracy:.6f}", f"{point.agreement:.6f}", f"{point.max_change:.3g}"]
            yield [evaluation.name, sweep.fill, f"{point.angle:g}", point.images, point.correct, *shares]


def _format_csv(heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows(rows)
    return stream.getvalue()
