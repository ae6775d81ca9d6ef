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
    """
    return run_training(config, SegmentationTask.prepare, resume, reporter)
