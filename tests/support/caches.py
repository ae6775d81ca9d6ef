"""A small real run with a frozen pretrained stem, and its feature cache: 64 crops of photographs, two views each."""

from pathlib import Path

import numpy as np

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.photographs import photograph_crops
from spectral_vmamba.data.transforms import Augmentation
from spectral_vmamba.features import FeatureStore, ViewRequest, ViewSet, fill, open_store
from spectral_vmamba.inference.network import build_classifier, default_preprocessing
from spectral_vmamba.training import TrainConfig
from tests.support.runs import NoteReporter, quick_config

IMAGES, TRAIN, SIZE = 64, 48, 64
SQUARE = {"domain": "square"}  # 16 tokens; the disk would leave four of them
ROTATED = Augmentation(
    crop_scale=(0.6, 1.0), vflip=0.5, rotation=45, color_jitter=0.2, auto_augment="", erasing=0.0, mixup=0.0, cutmix=0.0
)


def write_crops(folder: Path) -> Path:
    """A pack of bright and dark images: 48 for training, 16 for validation."""
    path = folder / "crops.npz"
    pixels = photograph_crops(IMAGES, SIZE).permute(0, 2, 3, 1).round().byte().numpy()
    brightness = pixels.mean((1, 2, 3))
    labels = (brightness > np.median(brightness)).astype(np.int64)
    np.savez(path, x_train=pixels[:TRAIN], y_train=labels[:TRAIN], x_test=pixels[TRAIN:], y_test=labels[TRAIN:])
    return path


def lite_config(pack: Path, output: Path, **changes) -> TrainConfig:
    """Three steps of 16 images per epoch: whole batches of the stem, with and without the cache."""
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
        "augment": ROTATED,
    }
    return quick_config(**{**settings, **changes})


def lite_model(**options):
    """A narrow Spectral VMamba with a pretrained stem."""
    return build_classifier(
        "spectral_vmamba_lite", {"widths": (16,), "depths": (1,), **SQUARE, **options}, ("a", "b")
    ).eval()


def open_lite_store(root: Path, model, reporter: NoteReporter | None = None, **options) -> FeatureStore:
    note = (reporter or NoteReporter()).note
    return open_store(root, model.tokenizer, default_preprocessing(model, SIZE), note=note, **options)


def cache_rows(store: FeatureStore, dataset: ImageDataset, views: ViewSet, workers: int = 0) -> tuple[list[int], int]:
    """Fill the store; return all rows and how many were computed."""
    request = ViewRequest(dataset, views)
    computed = fill(store, [request], workers)
    store.compute_orders(request.all_keys())
    return store.rows(list(request.all_keys())), computed
