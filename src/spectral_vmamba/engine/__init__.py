"""Train, evaluate, predict: functions over frozen settings. Needs the extra `train`."""

from spectral_vmamba.engine.config import OptimiserConfig, TrainConfig
from spectral_vmamba.engine.embedding.config import EmbedConfig
from spectral_vmamba.engine.embedding.embed import Embedded, embed
from spectral_vmamba.engine.embedding.search import Hit, search
from spectral_vmamba.engine.evaluate import Certificate, Evaluation, certify, evaluate
from spectral_vmamba.engine.predictor import Prediction, Predictor, load, load_timm
from spectral_vmamba.engine.recipes import recipe
from spectral_vmamba.engine.reporting import Bars, Silent
from spectral_vmamba.engine.step import TrainingError
from spectral_vmamba.engine.training import FitResult, fit

__all__ = [
    "Bars",
    "Certificate",
    "EmbedConfig",
    "Embedded",
    "Evaluation",
    "FitResult",
    "Hit",
    "OptimiserConfig",
    "Prediction",
    "Predictor",
    "Silent",
    "TrainConfig",
    "TrainingError",
    "certify",
    "embed",
    "evaluate",
    "fit",
    "load",
    "load_timm",
    "recipe",
    "search",
]
