"""A small real run with a frozen pretrained stem: 64 crops of photographs, two views each, seconds."""

from pathlib import Path

import numpy as np

from spectral_vmamba.data.photographs import photograph_crops
from spectral_vmamba.data.views import Augmentation
from spectral_vmamba.engine.config import TrainConfig
from tests.engine.runs import quick

PICTURES, TRAIN, SIZE = 64, 48, 64
SQUARE = {"domain": "square"}  # 16 tokens; the disk would leave four of them
TURNED = Augmentation(
    crop_scale=(0.6, 1.0), vflip=0.5, turn=45, color_jitter=0.2, auto_augment="", erasing=0.0, mixup=0.0, cutmix=0.0
)


def crops_pack(folder: Path) -> Path:
    """Bright pictures and dark ones; 48 to train on, 16 to validate on."""
    path = folder / "crops.npz"
    pixels = photograph_crops(PICTURES, SIZE).permute(0, 2, 3, 1).round().byte().numpy()
    bright = pixels.mean((1, 2, 3))
    labels = (bright > np.median(bright)).astype(np.int64)
    np.savez(path, x_train=pixels[:TRAIN], y_train=labels[:TRAIN], x_test=pixels[TRAIN:], y_test=labels[TRAIN:])
    return path


def lite(pack: Path, output: Path, **changes) -> TrainConfig:
    """Three steps of 16 an epoch: whole batches of the stem's, with and without the cache."""
    settings = {
        "model": "spectral_vmamba_lite",
        "model_options": {"widths": (16, 32), "depths": (1, 1), **SQUARE},
        "image_size": SIZE,
        "views": 2,
        "cache_folder": str(pack.parent / "cache"),
        "cache_precision": "float32",
        "epochs": 3,
        "batch_size": 16,
        "augment": TURNED,
    }
    return quick(pack, output, **{**settings, **changes})
