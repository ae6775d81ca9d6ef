"""Check a classifier's invariance on given images: quarter turns must not change the predictions."""

from dataclasses import dataclass, field
from pathlib import Path

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.readers.folder import read_unlabeled_folder
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.inference.evaluate import BATCH_SIZE, PixelEvaluator, evaluation_images
from spectral_vmamba.inference.predictor import Predictor, load
from spectral_vmamba.metrics.rotation import measure_sweep
from spectral_vmamba.utils.progress import Progress, no_progress


@dataclass(frozen=True)
class Certificate:
    """Over all images, each turned by 90, 180 and 270°: changed predictions and the largest change of a probability."""

    name: str
    images: int
    flips: int
    max_change: float
    tolerance: float
    unreadable: list[ReadError] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.images > 0 and self.flips == 0 and self.max_change <= self.tolerance


def certify(
    classifier: Predictor | str | Path,
    data: str | ImageDataset | None = None,
    tolerance: float = 1e-5,
    batch_size: int = BATCH_SIZE,
    workers: int = 0,
    progress: Progress = no_progress,
) -> Certificate:
    """Turn every image by 90, 180 and 270° and compare the predictions.

    Probabilities may change by up to `tolerance`: single precision rounds every sum at a relative 6e-8. `data` defaults
    to the validation images of the run; a folder may contain unlabeled images at any depth.

    >>> from spectral_vmamba import certify
    >>> certify("runs/digits").holds
    True
    """
    predictor = classifier if isinstance(classifier, Predictor) else load(classifier)
    dataset = _images(predictor, data)
    unreadable: list[ReadError] = []

    def labeled_batches():
        for batch in PixelEvaluator(predictor, dataset, workers, progress).batches(batch_size, "quarter turns"):
            unreadable.extend(batch.unreadable)
            if batch.indices:
                yield batch.inputs, batch.labels

    sweep = measure_sweep(predictor.name, predictor.probabilities, labeled_batches(), (90.0, 180.0, 270.0))
    flips, max_change = sum(point.flips for point in sweep.points), max(point.max_change for point in sweep.points)
    return Certificate(predictor.name, sweep.points[0].images, flips, max_change, tolerance, unreadable)


def _images(predictor: Predictor, data: str | ImageDataset | None) -> ImageDataset:
    """Labels do not matter here, so that a folder may have any structure."""
    if isinstance(data, str) and Path(data).is_dir():
        return read_unlabeled_folder(Path(data))
    return evaluation_images(predictor, data)[0]
