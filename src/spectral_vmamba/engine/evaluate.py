"""Measuring a trained classifier: upright, at every angle, and whether its promise about quarter turns holds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spectral_vmamba.analysis.scores import Scores, measure_scores
from spectral_vmamba.analysis.sweep import Fill, Sweep, measure_sweep, sweep_angles
from spectral_vmamba.data.folders import unlabelled
from spectral_vmamba.data.loading import Batch, usual_workers
from spectral_vmamba.data.pictures import Pictures
from spectral_vmamba.data.sources import training_data, validation_data
from spectral_vmamba.engine.answers import Answers, answers, pixel_batches
from spectral_vmamba.engine.cache import KeptPictures, fixed_embedding, open_cache
from spectral_vmamba.engine.config import TrainConfig, with_absolute_paths
from spectral_vmamba.engine.predictor import Predictor, load
from spectral_vmamba.engine.progress import Progress, quiet

BATCH = 64


@dataclass(frozen=True)
class Evaluation:
    """`broken` are names of pictures that could not be read; the figures are about the others."""

    name: str
    data: str
    classes: tuple[str, ...]
    scores: Scores
    sweeps: list[Sweep]
    broken: list[str]


@dataclass(frozen=True)
class Certificate:
    """Over all pictures, each turned by 90, 180 and 270°: changed predictions, largest change of a probability."""

    name: str
    pictures: int
    flips: int
    max_change: float
    tolerance: float
    broken: int = 0  # pictures that could not be read

    @property
    def holds(self) -> bool:
        return self.pictures > 0 and self.flips == 0 and self.max_change <= self.tolerance


def evaluate(
    classifier: Predictor | str | Path,
    data: str | Pictures | None = None,
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

    A `cache` folder keeps what a frozen stem says about the turned pictures, in half precision: other runs with the
    same stem are then measured in seconds. So many `workers` fill it (one a core unless given), or read the pictures
    (none unless given).
    """
    predictor = classifier if isinstance(classifier, Predictor) else load(classifier)
    pictures, told = pictures_for(predictor, data)
    shown = _Pixels(predictor, pictures, workers or 0, progress)
    if cache is not None:
        opened = open_cache(
            Path(cache), fixed_embedding(predictor.model), predictor.preprocessing, "float16", note, progress
        )
        workers = usual_workers() if workers is None else workers
        shown = KeptPictures(predictor.name, predictor.model, pictures, opened, workers, predictor.device)
    said = shown.answers(batch_size)
    angles = sweep_angles(rotations) if rotations is not None else []
    sweeps = [shown.sweep(angles, fill, batch_size) for fill in fills if angles]
    broken = [pictures.names[i] for i in said.broken]
    return Evaluation(predictor.name, told, predictor.classes, measure_scores(said.logits, said.labels), sweeps, broken)


@dataclass(frozen=True)
class _Pixels:
    """Measuring by showing the pictures themselves."""

    predictor: Predictor
    pictures: Pictures
    workers: int
    progress: Progress

    def answers(self, batch_size: int) -> Answers:
        predictor = self.predictor
        shown = self._shown(batch_size, "upright")
        return answers(
            predictor.model, self.pictures, shown, lambda batch: predictor.inputs(batch.views), predictor.device
        )

    def sweep(self, angles: Sequence[float], fill: Fill, batch_size: int) -> Sweep:
        shown = self._shown(batch_size, f"turned, {fill}")
        return measure_sweep(self.predictor.name, self.predictor.probabilities, _pairs(shown), angles, fill)

    def _shown(self, batch_size: int, told: str) -> Iterable[Batch]:
        batches = pixel_batches(self.pictures, self.predictor.preprocessing, batch_size, self.workers)
        return self.progress(batches, f"{self.predictor.name}, {told}", -(-len(self.pictures) // batch_size))


def certify(
    classifier: Predictor | str | Path,
    data: str | Pictures | None = None,
    tolerance: float = 1e-5,
    batch_size: int = BATCH,
    workers: int = 0,
    progress: Progress = quiet,
) -> Certificate:
    """Do quarter turns leave every answer alone? A change of probabilities up to `tolerance` (single precision rounds
    at 6e-8 of every sum) is still no change."""
    predictor = classifier if isinstance(classifier, Predictor) else load(classifier)
    pictures = _any_pictures(predictor, data)
    shown = pixel_batches(pictures, predictor.preprocessing, batch_size, workers)
    shown = progress(shown, "quarter turns", -(-len(pictures) // batch_size))
    sweep = measure_sweep(predictor.name, predictor.probabilities, _pairs(shown), (90.0, 180.0, 270.0))
    return Certificate(
        predictor.name,
        sweep.points[0].pictures,
        sum(point.flips for point in sweep.points),
        max(point.max_change for point in sweep.points),
        tolerance,
        len(pictures) - sweep.points[0].pictures,
    )


def _any_pictures(predictor: Predictor, data: str | Pictures | None) -> Pictures:
    """Labels do not matter here: a folder may hold pictures in any way."""
    if isinstance(data, str) and Path(data).is_dir():
        return unlabelled(Path(data))
    return pictures_for(predictor, data)[0]


def pictures_for(predictor: Predictor, data: str | Pictures | None) -> tuple[Pictures, str]:
    """Pictures numbered by the classifier's classes, and what to call them. None, or the data that its run learned
    from: the part that the run validated on."""
    if isinstance(data, Pictures):
        return data.with_classes(predictor.classes, "the pictures do not fit the classifier"), "given pictures"
    config = TrainConfig.from_dict(predictor.facts["config"]) if "config" in predictor.facts else None
    if data is None and config is None:
        raise ValueError(f"{predictor.name} does not come from a run of ours: say which data to measure it on")
    if config is not None and (data is None or with_absolute_paths(replace(config, data=data)).data == config.data):
        _, pictures = training_data(config.data, config.val_data, config.val_fraction, config.seed)
        told = f"the validation part of {config.data}"
    else:
        assert data is not None
        pictures, told = validation_data(data), data
    return pictures.with_classes(predictor.classes, f"{told} does not fit the classifier"), told


def _pairs(batches: Iterable[Batch]):
    return ((batch.views, batch.labels) for batch in batches if batch.pictures)
