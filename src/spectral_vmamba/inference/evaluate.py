"""Measure classifiers: scores on upright images, and accuracy at every angle."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from spectral_vmamba.data.dataset import UNLABELED, ImageDataset
from spectral_vmamba.data.loader import default_workers
from spectral_vmamba.data.sources import Part, absolute_path, read_evaluation_part
from spectral_vmamba.inference.cached_evaluation import CachedEvaluator
from spectral_vmamba.inference.checkpoint import CheckpointHeader, Weights
from spectral_vmamba.inference.evaluation import Evaluation, ImagePrediction
from spectral_vmamba.inference.evaluation_cache import open_evaluation_store
from spectral_vmamba.inference.measure_networks import (
    Evaluator,
    Measurement,
    SweepPlan,
    describe_inputs,
    measure_networks,
)
from spectral_vmamba.inference.pixel_evaluation import PixelEvaluator
from spectral_vmamba.inference.predictor import Predictor, load
from spectral_vmamba.metrics.classification import measure_scores
from spectral_vmamba.metrics.rotation import sweep_angles
from spectral_vmamba.ops.turns import Fill
from spectral_vmamba.utils.progress import Progress, no_progress
from spectral_vmamba.utils.wording import at_least

BATCH_SIZE = 64
SELECTED_THE_EPOCH = "these images selected the best epoch"


def evaluate(
    classifier: Predictor | str | Path,
    data: str | ImageDataset | None = None,
    rotations: float | None = None,
    fill: Fill | Sequence[Fill] = ("black",),
    weights: Weights | Literal["best"] = "best",
    cache: bool | None = None,
    cache_folder: str | Path | None = None,
    split: Part | None = None,
    batch_size: int = BATCH_SIZE,
    workers: int | None = None,
    device: str = "auto",
    progress: Progress = no_progress,
    note: Callable[[str], None] = lambda text: None,
) -> Evaluation:
    """Score a classifier on `data`, which defaults to the test images of its run, or to its validation images if it
    held out no test images; `split` ("val" or "test") selects one of the two.

    With `rotations`, also measure the accuracy at every angle in steps of that many degrees, once for each fill.
    `weights` and `device` are those of `load`, for a run or a checkpoint. See `evaluate_all` for the rest.

    >>> from spectral_vmamba import evaluate
    >>> evaluation = evaluate("runs/digits", rotations=90)
    >>> evaluation.scores.images, [point.flips for point in evaluation.sweeps[0].quarters]
    (359, [0, 0, 0])
    """
    if weights not in ("best", "ema", "raw"):
        raise ValueError(f"expected weights best, ema or raw, got {weights!r}; to compare several, use evaluate_all")
    predictor = classifier if isinstance(classifier, Predictor) else load(classifier, weights, device)
    return evaluate_all(
        [predictor], data, rotations, fill, cache, cache_folder, split, batch_size, workers, progress, note
    )[0]


def evaluate_all(
    classifiers: Sequence[Predictor],
    data: str | ImageDataset | None = None,
    rotations: float | None = None,
    fill: Fill | Sequence[Fill] = ("black",),
    cache: bool | None = None,
    cache_folder: str | Path | None = None,
    split: Part | None = None,
    batch_size: int = BATCH_SIZE,
    workers: int | None = None,
    progress: Progress = no_progress,
    note: Callable[[str], None] = lambda text: None,
) -> list[Evaluation]:
    """Score several classifiers, each as `evaluate` does, and share the work that is the same.

    Classifiers with the same tokenizer (as the averaged and the raw weights of a run with a frozen stem) share the
    tokens of every view. A view passes the stem once for all fills that give the same pixels, and the body of each
    classifier once. If the stem sees the same bits of two views, it is run on the first: with a frame these
    are the quarter turns of an image. The frame of each turned image is computed and compared, not assumed; use
    `certify` to prove the invariance without any sharing.

    `cache` stores features of a frozen stem on disk, so that further evaluations take seconds. It defaults to the
    setting of the training run. `cache_folder` defaults to that of the run, then to the user's cache folder. `workers`
    processes fill the cache (default: one per core) or read the images (default: none).
    """
    at_least(1, batch_size=batch_size)
    fills: Sequence[Fill] = (fill,) if isinstance(fill, str) else fill
    angles = sweep_angles(rotations) if rotations is not None else []
    evaluations: dict[int, Evaluation] = {}
    for group in _group(classifiers, data, split):
        start = time.monotonic()
        first, dataset = group.predictors[0], group.dataset
        plan = SweepPlan.create(first.model, angles, fills)
        evaluator: Evaluator = PixelEvaluator(first, dataset, workers or 0)
        if (store := open_evaluation_store(first, cache, cache_folder, note, progress)) is not None:
            filling = default_workers() if workers is None else workers
            evaluator = CachedEvaluator(dataset, store, filling, first.device, plan.distinct)
        measured = measure_networks(group.predictors, evaluator, dataset, plan, batch_size, progress)
        seconds = time.monotonic() - start
        for number, predictor, measurement in zip(group.numbers, group.predictors, measured, strict=True):
            evaluations[number] = _evaluation(predictor, group, measurement, seconds)
    return [evaluations[number] for number in range(len(classifiers))]


@dataclass(frozen=True, eq=False)
class _Group:
    """Classifiers that are measured on the same images with the same inputs; `numbers` are their places in the list."""

    dataset: ImageDataset
    description: str
    predictors: list[Predictor]
    numbers: list[int]


def _group(classifiers: Sequence[Predictor], data: str | ImageDataset | None, split: Part | None) -> list[_Group]:
    groups: dict[tuple, _Group] = {}
    images: dict[tuple, tuple[ImageDataset, str]] = {}  # of each run: reading a large folder takes time
    for number, predictor in enumerate(classifiers):
        run = (predictor.header.split if predictor.header else None, predictor.classes)
        if run not in images:
            images[run] = evaluation_images(predictor, data, split)
            _check_labels(images[run][0])
        dataset, description = images[run]
        key = (*run, predictor.preprocessing, str(predictor.device), describe_inputs(predictor.model))
        group = groups.setdefault(key, _Group(dataset, description, [], []))
        group.predictors.append(predictor)
        group.numbers.append(number)
    return list(groups.values())


def _check_labels(dataset: ImageDataset) -> None:
    unlabeled = (name for name, label in zip(dataset.names, dataset.labels, strict=True) if label == UNLABELED)
    if (name := next(unlabeled, None)) is not None:
        raise ValueError(f"{name} has no label; evaluation requires the labels of all images")


def _evaluation(predictor: Predictor, group: _Group, measurement: Measurement, seconds: float) -> Evaluation:
    probabilities = measurement.logits.softmax(1)
    best, predicted = (values.tolist() for values in probabilities.max(1))
    labels = measurement.labels.tolist()
    predictions = [
        ImagePrediction(i, group.dataset.names[i], labels[n], predicted[n], best[n], float(probabilities[n, labels[n]]))
        for n, i in enumerate(measurement.indices)
    ]
    return Evaluation(
        predictor.name,
        group.description,
        predictor.classes,
        measure_scores(measurement.logits, measurement.labels),
        measurement.sweeps,
        measurement.unreadable,
        predictions,
        group.dataset,
        predictor.header,
        SELECTED_THE_EPOCH in group.description and _is_best_epoch(predictor.header),
        seconds,
    )


def _is_best_epoch(header: CheckpointHeader | None) -> bool:
    """Whether a checkpoint holds the epoch with the best validation accuracy."""
    if header is None:
        return False
    step = header.training_setting(int, "state", "step")
    return step is not None and step == header.training_setting(int, "state", "best", "step")


def evaluation_images(
    predictor: Predictor, data: str | ImageDataset | None, split: Part | None = None
) -> tuple[ImageDataset, str]:
    """Images with labels that index the classifier's classes, and a description of them.

    For None, and for the data that the classifier was trained on, these are the test images of its run, or the
    validation images if it held out no test images. `split` selects one of the two.
    """
    if isinstance(data, ImageDataset):
        return data.with_classes(predictor.classes, "the images do not match the classifier"), "the given images"
    header = predictor.header
    if data is None and header is None:
        raise ValueError(f"{predictor.name} does not come from a training run: specify the data to evaluate it on")
    if header is not None and (data is None or absolute_path(data) == header.split.data):
        dataset, description = _images_of_run(header, split)
    else:
        assert data is not None
        dataset, description = read_evaluation_part(data, split), data
    return dataset.with_classes(predictor.classes, f"{description} does not match the classifier"), description


def _images_of_run(header: CheckpointHeader, part: Part | None) -> tuple[ImageDataset, str]:
    images = header.split.read()
    if part == "test" and images.test is None:
        raise ValueError(f"the run held out no test images of {header.split.data}; use test_fraction when training")
    held_out = images.test is not None and part != "val"
    dataset, name = (images.test, "test") if held_out else (images.val, "val")
    assert dataset is not None
    remark = "held out" if held_out else SELECTED_THE_EPOCH
    if header.fingerprints.get(name) != dataset.fingerprint():
        remark = "the data changed since training, so that some may be training images"
    return dataset, f"{'test' if held_out else 'validation'} images ({remark}) of {header.split.data}"
