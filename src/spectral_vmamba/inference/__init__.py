"""Use trained networks: load checkpoints, predict, evaluate, certify, save for the hub."""

from spectral_vmamba.inference.certify import Certificate, certify
from spectral_vmamba.inference.evaluate import Evaluation, evaluate
from spectral_vmamba.inference.hub import save_for_hub
from spectral_vmamba.inference.predictor import Prediction, Predictor, load, load_timm

__all__ = [
    "Certificate",
    "Evaluation",
    "Prediction",
    "Predictor",
    "certify",
    "evaluate",
    "load",
    "load_timm",
    "save_for_hub",
]
