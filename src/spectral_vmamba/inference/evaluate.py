"""Measure a classifier: scores on upright images, and accuracy at every angle."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from spectral_vmamba.data.dataset import UNLABELED, ImageDataset
from spectral_vmamba.data.loader import Batch, default_workers, eval_batches
from spectral_vmamba.data.sources import Part, absolute_path, read_evaluation_part
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.features import frozen_tokenizer, open_store
from spectral_vmamba.inference.cached_evaluation import CachedEvaluator
from spectral_vmamba.inference.checkpoint import CheckpointHeader
from spectral_vmamba.inference.logits import DatasetLogits, compute_logits
from spectral_vmamba.inference.predictor import Predictor, load
from spectral_vmamba.metrics.classification import Scores, measure_scores
from spectral_vmamba.metrics.rotation import Sweep, measure_sweep, sweep_angles
from spectral_vmamba.ops.turns import Fill
from spectral_vmamba.utils.progress import Progress, no_progress

BATCH_SIZE = 64
SELECTED_THE_EPOCH = "these images selected the best epoch"


@dataclass(frozen=True)
class Evaluation:
    """Scores and sweeps of the readable images; `data` describes the images."""

    name: str
    data: str
    classes: tuple[str, ...]
    scores: Scores
    sweeps: list[Sweep]
    unreadable: list[ReadError]


@runtime_checkable
class Evaluator(Protocol):
    """Computes what `evaluate` reports, from pixels or from cached features."""

    def logits(self, batch_size: int) -> DatasetLogits: ...

    def sweep(self, angles: Sequence[float], fill: Fill, batch_size: int) -> Sweep: ...


def evaluate(
    classifier: Predictor | str | Path,
    data: str | ImageDataset | None = None,
    rotations: float | None = None,
    fills: Sequence[Fill] = ("black",),
    batch_size: int = BATCH_SIZE,
    workers: int | None = None,
    progress: Progress = no_progress,
    cache: str | Path | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Evaluation:
    """Score a classifier on `data`, which defaults to the validation images of its run.

    With `rotations`, also measure the accuracy at every angle in steps of that many degrees, once for each fill.
    `cache` is a folder for features of a frozen stem in half precision: further runs with the same stem are then
    evaluated in seconds. `workers` processes fill the cache (default: one per core) or read the images (default: none).

    >>> from spectral_vmamba import evaluate
    >>> evaluation = evaluate("runs/digits", rotations=90)
    >>> evaluation.scores.images, [point.flips for point in evaluation.sweeps[0].quarters]
    (359, [0, 0, 0])
    """
    predictor = classifier if isinstance(classifier, Predictor) else load(classifier)
    dataset, description = evaluation_images(predictor, data)
    unlabeled = (name for name, label in zip(dataset.names, dataset.labels, strict=True) if label == UNLABELED)
    if (name := next(unlabeled, None)) is not None:
        raise ValueError(f"{name} has no label; evaluation requires the labels of all images")
    evaluator: Evaluator = PixelEvaluator(predictor, dataset, workers or 0, progress)
    if cache is not None:
        tokenizer = frozen_tokenizer(predictor.model)
        store = open_store(Path(cache), tokenizer, predictor.preprocessing, "float16", note, progress)
        workers = default_workers() if workers is None else workers
        evaluator = CachedEvaluator(predictor.name, predictor.model, dataset, store, workers, predictor.device)
    outputs = evaluator.logits(batch_size)
    angles = sweep_angles(rotations) if rotations is not None else []
    sweeps = [evaluator.sweep(angles, fill, batch_size) for fill in fills if angles]
    scores = measure_scores(outputs.logits, outputs.labels)
    return Evaluation(predictor.name, description, predictor.classes, scores, sweeps, outputs.unreadable)


@dataclass(frozen=True)
class PixelEvaluator:
    """Evaluates on the images themselves."""

    predictor: Predictor
    dataset: ImageDataset
    workers: int
    progress: Progress

    def logits(self, batch_size: int) -> DatasetLogits:
        predictor, batches = self.predictor, self.batches(batch_size, "upright")
        return compute_logits(
            predictor.model, self.dataset, batches, lambda batch: predictor.inputs(batch.inputs), predictor.device
        )

    def sweep(self, angles: Sequence[float], fill: Fill, batch_size: int) -> Sweep:
        batches = self.batches(batch_size, f"rotated, {fill}")
        labeled = ((batch.inputs, batch.labels) for batch in batches if batch.indices)
        return measure_sweep(self.predictor.name, self.predictor.probabilities, labeled, angles, fill)

    def batches(self, batch_size: int, description: str) -> Iterator[Batch]:
        transform = self.predictor.preprocessing.eval_transform()
        batches = eval_batches(self.dataset, transform, batch_size, self.workers)
        count = -(-len(self.dataset) // batch_size)
        yield from self.progress(batches, f"{self.predictor.name}, {description}", count)


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
