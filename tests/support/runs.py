"""Small real runs: a narrow network on 400 of the digits, seconds each."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

from spectral_vmamba.data.readers.digits import digits
from spectral_vmamba.data.transforms import Augmentation
from spectral_vmamba.training.train_config import OptimizerConfig, TrainConfig

TRAIN, VAL = 320, 80
PLAIN = Augmentation(
    crop_scale=(0.8, 1.0), hflip=0.0, auto_augment="", color_jitter=0.0, erasing=0.0, mixup=0.0, cutmix=0.0
)


def quick(**settings) -> TrainConfig:
    """What small runs have in common."""
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


def small(output: Path, **changes) -> TrainConfig:
    """Five steps an epoch."""
    settings = {
        "data": str(few_digits(output.parent)),
        "output": str(output),
        "model": "spectral_vmamba_nano",
        "model_options": {"widths": (16, 32), "depths": (1, 1)},
        "image_size": 16,
        "batch_size": 64,
        "augment": PLAIN,
    }
    return quick(**{**settings, **changes})


def few_digits(folder: Path) -> Path:
    path = folder / "few_digits.npz"
    if not path.exists():
        images = digits()
        pixels = np.stack([np.asarray(images.opener(i))[..., 0] for i in range(TRAIN + VAL)])
        train, val = slice(TRAIN), slice(TRAIN, TRAIN + VAL)
        labels = images.labels[: TRAIN + VAL]
        half_written = folder / f"{os.getpid()}.npz"
        np.savez(half_written, x_train=pixels[train], y_train=labels[train], x_test=pixels[val], y_test=labels[val])
        half_written.rename(path)
    return path


def tensors(run: Path, name: str = "last"):
    return load_file(run / f"{name}.safetensors")


def same_tensors(one: Path, other: Path, name: str = "last") -> bool:
    a, b = tensors(one, name), tensors(other, name)
    return a.keys() == b.keys() and all(a[key].equal(b[key]) for key in a)
