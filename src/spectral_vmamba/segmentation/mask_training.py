"""Train a segmentation network."""

from spectral_vmamba.segmentation.segment_config import SegmentConfig
from spectral_vmamba.segmentation.segmentation_task import SegmentationTask
from spectral_vmamba.training.engine import FitResult, run_training
from spectral_vmamba.training.reporting import Reporter


def fit_segmenter(config: SegmentConfig, resume: bool = False, reporter: Reporter | None = None) -> FitResult:
    """Train a segmentation network; with `resume`, continue the run in the output folder if there is one.

    Writes `best.safetensors`, `last.safetensors`, `config.yaml` and `history.json`. The best epoch is the one with the
    highest mean IoU on the validation images. Ctrl-C stops after the current step, saves the state and raises
    `Interrupted`. Requires the extra `segment`.

    >>> from pathlib import Path
    >>> import numpy as np
    >>> from PIL import Image
    >>> from spectral_vmamba import fit_segmenter, segment_recipe
    >>> from spectral_vmamba.training import SilentReporter
    >>> for part, values in (("images", (40, 200)), ("masks", (0, 1))):
    ...     Path("tiles", part).mkdir(parents=True, exist_ok=True)
    ...     for i in range(8):
    ...         Image.fromarray(np.repeat(np.uint8([values] * 64), 32, axis=1)).save(f"tiles/{part}/{i}.png")
    >>> config = segment_recipe("segment_nano", data="tiles", size=64, steps=2, batch_size=2, output="runs/tiles")
    >>> len(fit_segmenter(config, reporter=SilentReporter()).history)
    1
    """
    return run_training(config, SegmentationTask.prepare, resume, reporter)
