"""Small real training runs, seconds each: a narrow network on 400 of the digits."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors.torch import load_file
from torch import Tensor

from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.data.transforms import Augmentation
from spectral_vmamba.training import OptimizerConfig, SilentReporter, TrainConfig

TRAIN, VAL = 320, 80
CROPS_ONLY = Augmentation(
    crop_scale=(0.8, 1.0), hflip=0.0, auto_augment="", color_jitter=0.0, erasing=0.0, mixup=0.0, cutmix=0.0
)


def quick_config(**settings) -> TrainConfig:
    """The settings that all small runs share, with changes."""
    common = TrainConfig(
        epochs=2,
        workers=0,
        ema=0.9,
        drop_path=0.1,
        optimizer=OptimizerConfig(lr=4e-2, min_lr=1e-4, warmup_lr=1e-4, warmup_epochs=0.5),
        tracker="none",
        device="cpu",
    )
    return replace(common, **settings)


def digits_config(output: Path, **changes) -> TrainConfig:
    """A run on a few digits, with five steps per epoch."""
    settings = {
        "data": str(write_digits(output.parent)),
        "output": str(output),
        "model": "spectral_vmamba_nano",
        "model_options": {"widths": (16, 32), "depths": (1, 1)},
        "image_size": 16,
        "batch_size": 64,
        "augment": CROPS_ONLY,
    }
    return quick_config(**{**settings, **changes})


def write_digits(folder: Path) -> Path:
    """Write a pack of digits unless it is there. Several processes may do so at once."""
    path = folder / "few_digits.npz"
    if not path.exists():
        dataset = read_digits()
        pixels = np.stack([np.asarray(dataset.open(i))[..., 0] for i in range(TRAIN + VAL)])
        train, val = slice(TRAIN), slice(TRAIN, TRAIN + VAL)
        labels = dataset.labels[: TRAIN + VAL]
        temporary = folder / f"{os.getpid()}.npz"
        np.savez(temporary, x_train=pixels[train], y_train=labels[train], x_test=pixels[val], y_test=labels[val])
        temporary.rename(path)
    return path


class NoteReporter(SilentReporter):
    """Collects the notes of a run."""

    def __init__(self):
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def load_tensors(run: Path, name: str = "last") -> dict[str, Tensor]:
    return load_file(run / f"{name}.safetensors")


def tensors_equal(one: Path, other: Path, name: str = "last") -> bool:
    """Whether two runs saved the same bits."""
    a, b = load_tensors(one, name), load_tensors(other, name)
    return a.keys() == b.keys() and all(a[key].equal(b[key]) for key in a)
