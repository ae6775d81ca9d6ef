"""Measuring a trained classifier: upright, at every angle, and whether its promise about quarter turns holds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.loader import Batch, usual_workers
from spectral_vmamba.data.readers.folder import unlabeled
from spectral_vmamba.data.sources import training_data, validation_data
from spectral_vmamba.features import frozen_tokenizer, open_cache
from spectral_vmamba.inference.cached_evaluation import CachedEvaluator
from spectral_vmamba.inference.logits import Answers, answers, pixel_batches
from spectral_vmamba.inference.predictor import Predictor, load
from spectral_vmamba.metrics.classification import Scores, measure_scores
from spectral_vmamba.metrics.rotation import Fill, Sweep, measure_sweep, sweep_angles
from spectral_vmamba.training.train_config import TrainConfig, with_absolute_paths
from spectral_vmamba.utils.progress import Progress, quiet

BATCH = 64


@dataclass(frozen=True)
class Evaluation:
    """`broken` are names of images that could not be read; the figures are about the others."""

    name: str
    data: str
    classes: tuple[str, ...]
    scores: Scores
    sweeps: list[Sweep]
    broken: list[str]


@dataclass(frozen=True)
class Certificate:
    """Over all images, each turned by 90, 180 and 270°: changed predictions, largest change of a probability."""

    name: str
    images: int
    flips: int
    max_change: float
    tolerance: float
    broken: int = 0  # images that could not be read

    @property
    def holds(self) -> bool:
        return self.images > 0 and self.flips == 0 and self.max_change <= self.tolerance


def evaluate(
    classifier: Predictor | str | Path,
    data: str | ImageDataset | None = None,
    rotations: float | None = None,
    fills: Sequence[Fill] = ("black",),
    batch_size: int = BATCH,
    workers: int | None = None,
    progress: Progress = quiet,
    cache: str | Path | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Evaluation:
    """Scores on `data` (what the run itself validated on, unless given); with `rotations`, also a sweep over the circle
    in steps of so many degrees, once for every fill.

    A `cache` folder keeps what a frozen stem says about the turned images, in half precision: other runs with the
    same stem are then measured in seconds. So many `workers` fill it (one a core unless given), or read the images
    (none unless given).
    """
    predictor = classifier if isinstance(classifier, Predictor) else load(classifier)
    images, told = images_for(predictor, data)
    shown = _Pixels(predictor, images, workers or 0, progress)
    if cache is not None:
        opened = open_cache(
            Path(cache), frozen_tokenizer(predictor.model), predictor.preprocessing, "float16", note, progress
        )
        workers = usual_workers() if workers is None else workers
        shown = CachedEvaluator(predictor.name, predictor.model, images, opened, workers, predictor.device)
    said = shown.answers(batch_size)
    angles = sweep_angles(rotations) if rotations is not None else []
    sweeps = [shown.sweep(angles, fill, batch_size) for fill in fills if angles]
    broken = [images.names[i] for i in said.broken]
    return Evaluation(predictor.name, told, predictor.classes, measure_scores(said.logits, said.labels), sweeps, broken)


@dataclass(frozen=True)
class _Pixels:
    """Measuring by showing the images themselves."""

    predictor: Predictor
    images: ImageDataset
    workers: int
    progress: Progress

    def answers(self, batch_size: int) -> Answers:
        predictor = self.predictor
        shown = self._shown(batch_size, "upright")
        return answers(
            predictor.model, self.images, shown, lambda batch: predictor.inputs(batch.views), predictor.device
        )

    def sweep(self, angles: Sequence[float], fill: Fill, batch_size: int) -> Sweep:
        shown = self._shown(batch_size, f"turned, {fill}")
        return measure_sweep(self.predictor.name, self.predictor.probabilities, _pairs(shown), angles, fill)

    def _shown(self, batch_size: int, told: str) -> Iterable[Batch]:
        batches = pixel_batches(self.images, self.predictor.preprocessing, batch_size, self.workers)
        return self.progress(batches, f"{self.predictor.name}, {told}", -(-len(self.images) // batch_size))


def certify(
    classifier: Predictor | str | Path,
    data: str | ImageDataset | None = None,
    tolerance: float = 1e-5,
    batch_size: int = BATCH,
    workers: int = 0,
    progress: Progress = quiet,
) -> Certificate:
    """Do quarter turns leave every answer alone? A change of probabilities up to `tolerance` (single precision rounds
    at 6e-8 of every sum) is still no change."""
    predictor = classifier if isinstance(classifier, Predictor) else load(classifier)
    images = _any_images(predictor, data)
    shown = pixel_batches(images, predictor.preprocessing, batch_size, workers)
    shown = progress(shown, "quarter turns", -(-len(images) // batch_size))
    sweep = measure_sweep(predictor.name, predictor.probabilities, _pairs(shown), (90.0, 180.0, 270.0))
    return Certificate(
        predictor.name,
        sweep.points[0].images,
        sum(point.flips for point in sweep.points),
        max(point.max_change for point in sweep.points),
        tolerance,
        len(images) - sweep.points[0].images,
    )


def _any_images(predictor: Predictor, data: str | ImageDataset | None) -> ImageDataset:
    """Labels do not matter here: a folder may hold images in any way."""
    if isinstance(data, str) and Path(data).is_dir():
        return unlabeled(Path(data))
    return images_for(predictor, data)[0]


def images_for(predictor: Predictor, data: str | ImageDataset | None) -> tuple[ImageDataset, str]:
    """ImageDataset numbered by the classifier's classes, and what to call them. None, or the data that its run learned
    from: the part that the run validated on."""
    if isinstance(data, ImageDataset):
        return data.with_classes(predictor.classes, "the images do not fit the classifier"), "given images"
    config = TrainConfig.from_dict(predictor.facts["config"]) if "config" in predictor.facts else None
    if data is None and config is None:
        raise ValueError(f"{predictor.name} does not come from a run of ours: say which data to measure it on")
    if config is not None and (data is None or with_absolute_paths(replace(config, data=data)).data == config.data):
        _, images = training_data(config.data, config.val_data, config.val_fraction, config.seed)
        told = f"the validation part of {config.data}"
    else:
        assert data is not None
        images, told = validation_data(data), data
    return images.with_classes(predictor.classes, f"{told} does not fit the classifier"), told


def _pairs(batches: Iterable[Batch]):
    return ((batch.views, batch.labels) for batch in batches if batch.images)
