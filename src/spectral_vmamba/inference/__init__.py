"""Use trained networks: load checkpoints, predict, evaluate, certify, save for the hub."""

from spectral_vmamba.inference.certify import Certificate, certify
from spectral_vmamba.inference.evaluate import evaluate, evaluate_all
from spectral_vmamba.inference.evaluation import Evaluation
from spectral_vmamba.inference.hub import from_pretrained, save_for_hub
from spectral_vmamba.inference.predictor import Prediction, Predictor, load, load_timm

__all__ = [
    "Certificate",
    "Evaluation",
    "Prediction",
    "Predictor",
    "certify",
    "evaluate",
    "evaluate_all",
    "from_pretrained",
    "load",
    "load_timm",
    "save_for_hub",
]
