"""Two processes learn what one learns."""

import numpy as np
import pytest
from PIL import Image

from spectral_vmamba.segmentation import MaskAugmentation, fit_segmenter, load_segmenter
from spectral_vmamba.training import SilentReporter
from tests.segmentation.conftest import segment_config, write_pairs
from tests.training.test_distributed import launch, read_history

pytest.importorskip("segmentation_models_pytorch", reason="needs the extra `segment`")

_RUN = """
import sys
from pathlib import Path
from spectral_vmamba.segmentation import fit_segmenter
from spectral_vmamba.training import SilentReporter
from tests.segmentation.test_two_processes import config

folder, batch_size = Path(sys.argv[1]), int(sys.argv[2])
fit_segmenter(config(folder, batch_size), reporter=SilentReporter())
"""


def config(folder, batch_size):
    """Crops of equal size without ignored pixels: the mean over the pixels of a step is that of its two halves."""
    decoder = {"decoder_pyramid_channels": 16, "decoder_segmentation_channels": 32, "decoder_dropout": 0.0}
    changes = {"batch_size": batch_size, "epochs": 3, "drop_path": 0.0, "decoder_options": decoder}
    return segment_config(folder.parent / "data", folder, augment=MaskAugmentation(scale=(1.0, 1.0)), **changes)


@pytest.mark.full
def test_two_processes_learn_what_one_learns(tmp_path):
    data = write_pairs(tmp_path / "data")
    for path in (data / "masks").iterdir():
        mask = np.asarray(Image.open(path))
        Image.fromarray(np.where(mask == 255, 0, mask).astype(np.uint8)).save(path)
    fit_segmenter(config(tmp_path / "1", 4), reporter=SilentReporter())
    script = tmp_path / "run.py"
    script.write_text(_RUN)
    done = launch(script, tmp_path / "2", 2)
    assert done.returncode == 0, done.stderr
    one, two = (read_history(tmp_path / name) for name in ("1", "2"))
    # Later epochs differ by more: Adam's first steps have the sign of a gradient alone, which enlarges rounding.
    assert one[0]["loss"] == pytest.approx(two[0]["loss"], rel=1e-6)
    assert all(history[0]["loss"] - history[-1]["loss"] > 0.05 for history in (one, two))
    assert load_segmenter(tmp_path / "2").classes == ("ground", "disk")
