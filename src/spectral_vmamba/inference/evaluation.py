"""The result of `evaluate`: scores, sweeps and the prediction of every image."""

from dataclasses import dataclass, field

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.inference.checkpoint import CheckpointHeader
from spectral_vmamba.metrics.classification import ClassScores, Scores, measure_classes
from spectral_vmamba.metrics.rotation import Sweep

SELECTION_NOTICE = "These images selected the best epoch; use --test-fraction when training for an untouched test set."


@dataclass(frozen=True)
class ImagePrediction:
    """One upright image: its true and its predicted class, and the probability of each. Classes are indices."""

    index: int
    name: str
    label: int
    predicted: int
    probability: float
    label_probability: float

    @property
    def is_correct(self) -> bool:
        return self.predicted == self.label


@dataclass(frozen=True)
class Evaluation:
    """Scores, sweeps and predictions of the readable images; `data` describes the images.

    `selected_epoch` tells whether these images selected the epoch or the weights that are measured. `seconds` is the
    time of the measurement, which classifiers that are measured together share. `header` is that of the checkpoint.
    """

    name: str
    data: str
    classes: tuple[str, ...]
    scores: Scores
    sweeps: list[Sweep]
    unreadable: list[ReadError]
    predictions: list[ImagePrediction] = field(repr=False)
    images: ImageDataset = field(repr=False)
    header: CheckpointHeader | None = field(repr=False)
    selected_epoch: bool
    seconds: float

    @property
    def mistakes(self) -> list[ImagePrediction]:
        """Misclassified images, the most confident mistakes first."""
        wrong = [each for each in self.predictions if not each.is_correct]
        return sorted(wrong, key=lambda each: (-each.probability, each.index))

    @property
    def mean_confidence(self) -> float:
        """Mean probability of the predicted class."""
        return sum(each.probability for each in self.predictions) / len(self.predictions)

    @property
    def label_smoothing(self) -> float | None:
        """The label smoothing of the training run, None if it is not known."""
        return self.header.training_setting(float, "config", "augment", "smoothing") if self.header else None

    @property
    def class_scores(self) -> list[ClassScores]:
        return measure_classes(self.scores.confusion)
