"""A small dataset with masks, and a run on it."""

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.segmentation import MaskAugmentation, SegmentConfig, fit_segmenter
from spectral_vmamba.training import OptimizerConfig, SilentReporter

SIDE = 48


def write_pairs(folder, count=12, size=(SIDE, SIDE)):
    """Bright disks (class 1) on a dark background (class 0), with a ring of ignored pixels around each."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[: size[0], : size[1]]
    for i in range(count):
        center = rng.uniform(0.3, 0.7, 2) * size
        distance = np.hypot(y - center[0], x - center[1]) - rng.uniform(6, 12)
        pixels = np.where(distance[..., None] < 0, rng.uniform(150, 250, 3), rng.uniform(0, 90, 3))
        pixels = (pixels + rng.normal(0, 8, pixels.shape)).clip(0, 255).astype(np.uint8)
        mask = np.where(distance < 0, 1, 0).astype(np.uint8)
        mask[np.abs(distance) < 1] = 255
        for part, image in (("images", pixels), ("masks", mask)):
            (folder / part).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(folder / part / f"{i:02}.png")
    (folder / "classes.txt").write_text("ground\ndisk\n")
    return folder


def segment_config(data, output, **changes):
    settings = {
        "data": str(data),
        "output": str(output),
        "model": "vmamba_nano",
        "model_options": {"widths": (8, 16, 16), "depths": (1, 1, 1)},
        "decoder": "fpn",
        "decoder_options": {"decoder_pyramid_channels": 16, "decoder_segmentation_channels": 32},
        "size": 32,
        "batch_size": 4,
        "epochs": 10,
        "workers": 0,
        "device": "cpu",
        "tracker": "none",
        "augment": MaskAugmentation(scale=(0.8, 1.2)),
        "optimizer": OptimizerConfig(lr=1.2, warmup_steps=2, schedule="linear", min_lr=0.0),
    }
    return SegmentConfig(**{**settings, **changes})


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="session")
def run(pairs, tmp_path_factory):
    pytest.importorskip("segmentation_models_pytorch", reason="needs the extra `segment`")
    config = segment_config(pairs, tmp_path_factory.mktemp("segment") / "run", ema=0.5, frame="moment", loss="both")
    return fit_segmenter(config, reporter=SilentReporter())
