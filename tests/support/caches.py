"""A small real run with a frozen pretrained stem, and its cache: 64 crops of photographs, two views each, seconds."""

from pathlib import Path

import numpy as np

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.photographs import photograph_crops
from spectral_vmamba.data.transforms import Augmentation
from spectral_vmamba.features import FeatureCache, Views, fill, open_cache, request_views
from spectral_vmamba.inference.network import build_model, preprocessing_of
from spectral_vmamba.training import Silent
from spectral_vmamba.training.train_config import TrainConfig
from tests.support.runs import quick

PICTURES, TRAIN, SIZE = 64, 48, 64
SQUARE = {"domain": "square"}  # 16 tokens; the disk would leave four of them
TURNED = Augmentation(
    crop_scale=(0.6, 1.0), vflip=0.5, turn=45, color_jitter=0.2, auto_augment="", erasing=0.0, mixup=0.0, cutmix=0.0
)


def crops_pack(folder: Path) -> Path:
    """Bright images and dark ones; 48 to train on, 16 to validate on."""
    path = folder / "crops.npz"
    pixels = photograph_crops(PICTURES, SIZE).permute(0, 2, 3, 1).round().byte().numpy()
    bright = pixels.mean((1, 2, 3))
    labels = (bright > np.median(bright)).astype(np.int64)
    np.savez(path, x_train=pixels[:TRAIN], y_train=labels[:TRAIN], x_test=pixels[TRAIN:], y_test=labels[TRAIN:])
    return path


def lite(pack: Path, output: Path, **changes) -> TrainConfig:
    """Three steps of 16 an epoch: whole batches of the stem's, with and without the cache."""
    settings = {
        "data": str(pack),
        "output": str(output),
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
    return quick(**{**settings, **changes})


class Notes(Silent):
    def __init__(self):
        self.said: list[str] = []

    def note(self, text):
        self.said.append(text)


def small_lite(**options):
    return build_model(
        "spectral_vmamba_lite", {"widths": (16,), "depths": (1,), **SQUARE, **options}, ("a", "b")
    ).eval()


def opened(root: Path, model, notes: Notes | None = None, **options) -> FeatureCache:
    return open_cache(root, model.tokenizer, preprocessing_of(model, SIZE), note=(notes or Notes()).note, **options)


def kept(cache: FeatureCache, images: ImageDataset, views: Views, workers: int = 0) -> tuple[list[int], int]:
    """All rows, filled where need be, and how many had to be computed."""
    request = request_views(images, views, cache)
    computed = fill(cache, [request], workers)
    cache.order(request.all_keys())
    return cache.rows(list(request.all_keys())), computed
