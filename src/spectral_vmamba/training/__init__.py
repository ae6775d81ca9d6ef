"""Train a classifier: functions over frozen settings. Requires the extra `train`."""

from spectral_vmamba.training.engine import FitResult
from spectral_vmamba.training.fit import fit
from spectral_vmamba.training.recipes import recipe
from spectral_vmamba.training.reporting import Reporter, SilentReporter, TerminalReporter
from spectral_vmamba.training.run_config import OptimizerConfig
from spectral_vmamba.training.step import TrainingError
from spectral_vmamba.training.train_config import TrainConfig

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
