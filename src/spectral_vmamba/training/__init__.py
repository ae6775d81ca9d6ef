"""Train a classifier: functions over frozen settings. Requires the extra `train`."""

from spectral_vmamba.training.fit import FitResult, fit
from spectral_vmamba.training.recipes import recipe
from spectral_vmamba.training.reporting import Reporter, SilentReporter, TerminalReporter
from spectral_vmamba.training.step import TrainingError
from spectral_vmamba.training.train_config import OptimizerConfig, TrainConfig

__all__ = [
    "FitResult",
    "OptimizerConfig",
    "Reporter",
    "SilentReporter",
    "TerminalReporter",
    "TrainConfig",
    "TrainingError",
    "fit",
    "recipe",
]
