"""Distillation: a network also learns the predictions of a trained network, its teacher, for the same views."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference.checkpoint import find_checkpoint
from spectral_vmamba.inference.predictor import Predictor, load


@dataclass(frozen=True, eq=False)
class Teacher:
    """A trained classifier of the same classes, which may be larger and see larger images. It is not trained.

    `places` are its outputs for the classes of the student.
    """

    predictor: Predictor
    places: Int[Tensor, "classes"]
    path: Path

    @classmethod
    def load(cls, checkpoint: str, classes: Sequence[str], device: torch.device) -> "Teacher":
        path = find_checkpoint(checkpoint)
        predictor = load(path, device=str(device))
        if sorted(predictor.classes) != sorted(classes):
            differing = sorted(set(predictor.classes) ^ set(classes))
            raise ValueError(
                f"the teacher {checkpoint} has {len(predictor.classes)} classes and the data {len(classes)}; expected "
                f"the same ones, and {differing[0]!r} is only in one of them"
            )
        places = torch.tensor([predictor.classes.index(name) for name in classes], device=device)
        predictor.model.eval().requires_grad_(False)
        return cls(predictor, places, path)

    def fingerprint(self) -> str:
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def __str__(self) -> str:
        size = self.predictor.preprocessing.size
        return f"teacher: {self.predictor.name}, {size} × {size} pixels, from {self.path}"

    def logits(self, inputs: Float[Tensor, "b 3 H W"], preprocessing: Preprocessing) -> Float[Tensor, "b classes"]:
        """The teacher's answer to views that were preprocessed for the student, erased and mixed as the student sees
        them."""
        mine, size = self.predictor.preprocessing, self.predictor.preprocessing.size
        with torch.no_grad():
            pixels = inputs * _channels(preprocessing.std, inputs) + _channels(preprocessing.mean, inputs)
            if pixels.shape[-2:] != (size, size):
                pixels = F.interpolate(pixels, (size, size), mode="bilinear", antialias=True)
            normalized = (pixels - _channels(mine.mean, inputs)) / _channels(mine.std, inputs)
            return self.predictor.model(normalized).float()[:, self.places]


def distance(
    logits: Float[Tensor, "b classes"], teacher: Float[Tensor, "b classes"], temperature: float
) -> Float[Tensor, ""]:
    """T² KL(softmax(teacher / T) ‖ softmax(logits / T)), mean over images: Hinton's loss."""
    divergence = F.kl_div(
        (logits / temperature).log_softmax(1),
        (teacher / temperature).log_softmax(1),
        log_target=True,
        reduction="batchmean",
    )
    return temperature**2 * divergence


def _channels(values: Sequence[float], like: Tensor) -> Float[Tensor, "c 1 1"]:
    return torch.tensor(values, device=like.device, dtype=like.dtype).view(-1, 1, 1)
