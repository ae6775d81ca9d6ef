"""Load a checkpoint of any kind of network."""

from pathlib import Path

from spectral_vmamba.inference.checkpoint import WeightChoice, find_checkpoint, load_checkpoint
from spectral_vmamba.inference.predictor import Predictor, make_predictor
from spectral_vmamba.segmentation.segmenter import Segmenter, make_segmenter


def load(checkpoint: str | Path, weights: WeightChoice = "best", device: str = "auto") -> Predictor | Segmenter:
    """Load a checkpoint, or the best one of the folder of a run: a `Predictor` of `fit`, a `Segmenter` of
    `fit_segmenter`.

    `weights` are the averaged ("ema") or the raw ones; "best" are those that validated better at the epoch that the
    file holds. `device` is "auto" (a GPU if torch can use one), "cpu", "cuda" or "mps". The file may come from a
    stranger: its header selects a registered architecture, and nothing in it is run, read from other files or
    downloaded.

    >>> import numpy as np
    >>> import spectral_vmamba
    >>> predictor = spectral_vmamba.load("runs/digits")
    >>> prediction = predictor.predict(np.zeros((8, 8), np.uint8), top=3)[0]
    >>> prediction.label in predictor.classes, len(prediction.probabilities)
    (True, 3)
    """
    found = load_checkpoint(find_checkpoint(checkpoint))
    make = make_predictor if found.header.masks is None else make_segmenter
    return make(found, weights, device)
