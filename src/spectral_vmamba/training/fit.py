"""Train a classifier."""

from spectral_vmamba.training.classification_task import ClassificationTask
from spectral_vmamba.training.engine import FitResult, run_training
from spectral_vmamba.training.reporting import Reporter
from spectral_vmamba.training.train_config import TrainConfig


def fit(config: TrainConfig, resume: bool = False, reporter: Reporter | None = None) -> FitResult:
    """Train a classifier; with `resume`, continue the run in the output folder if there is one.

    Writes `best.safetensors`, `last.safetensors`, `config.yaml` and `history.json`. Ctrl-C stops after the current
    step, saves the state and raises `Interrupted`. Requires the extra `train`.

    >>> from spectral_vmamba import fit, recipe
    >>> from spectral_vmamba.training import SilentReporter
    >>> result = fit(recipe("digits", epochs=1, output="runs/digits"), reporter=SilentReporter())
    >>> len(result.history)
    1
    """
    return run_training(config, ClassificationTask.prepare, resume, reporter)
