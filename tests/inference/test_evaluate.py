"""Scores and rotation sweeps of trained classifiers."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from spectral_vmamba.data.dataset import UNLABELED
from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.inference import evaluate, load, load_timm
from spectral_vmamba.inference.evaluate import SELECTED_THE_EPOCH, evaluation_images
from spectral_vmamba.metrics.rotation import measure_sweep
from spectral_vmamba.ops.turns import rotate_pixels
from spectral_vmamba.training import SilentReporter, fit
from tests.support.image_folders import write_noise
from tests.support.runs import VAL, digits_config
from tests.support.storages import make_unreadable


def test_the_validation_accuracy_is_that_of_training(run):
    evaluation = evaluate(run.folder)
    assert evaluation.scores.top1 == run.best["score"]
    assert evaluation.scores.images == VAL
    assert evaluation.unreadable == []


def test_the_data_of_the_run_means_its_validation_part(run, predictor):
    split = predictor.header.split
    evaluation = evaluate(predictor, split.data)
    description = f"validation images (these images selected the best epoch) of {split.data}"
    assert (evaluation.scores.images, evaluation.data) == (VAL, description)
    assert evaluation.scores.top1 == run.best["score"]


def test_a_run_with_test_images_is_measured_on_them(tmp_path):
    """Neither training nor validation has seen them: unreadable test images are not noticed until then."""
    write_noise(tmp_path / "data", count=12)
    config = digits_config(tmp_path / "run", data=str(tmp_path / "data"), test_fraction=0.25, epochs=1, batch_size=8)
    _, val, test = config.split.read()
    for name in test.names:
        (tmp_path / "data" / name).write_bytes(b"x" * (tmp_path / "data" / name).stat().st_size)
    run = fit(config, reporter=SilentReporter())
    assert run.test_images == 6
    predictor = load(run.folder)
    images, description = evaluation_images(predictor, None)
    assert (images.names, description) == (test.names, f"test images (held out) of {tmp_path / 'data'}")
    images, description = evaluation_images(predictor, None, "val")
    assert images.names == val.names
    assert SELECTED_THE_EPOCH in description
    (tmp_path / "data" / val.names[0]).unlink()
    _, description = evaluation_images(predictor, None)
    assert "the data changed since training, so that some may be training images" in description


def test_a_run_without_test_images_says_so(predictor):
    with pytest.raises(ValueError, match=r"held out no test images of .*; use test_fraction when training"):
        evaluation_images(predictor, None, "test")


def test_quarter_turns_change_nothing(predictor):
    """0 flips and the same bits, after training."""
    evaluation = evaluate(predictor, rotations=45, fill=("black", "reflect", "disk"))
    assert [sweep.fill for sweep in evaluation.sweeps] == ["black", "reflect", "disk"]
    for sweep in evaluation.sweeps:
        assert [point.angle for point in sweep.points] == [0, 45, 90, 135, 180, 225, 270, 315]
        assert [point.flips for point in sweep.quarters] == [0, 0, 0]
        assert [point.max_change for point in sweep.quarters] == [0, 0, 0]
        assert {point.accuracy for point in sweep.quarters} == {sweep.upright.accuracy}


def test_a_frame_that_is_wrong_is_noticed(predictor, monkeypatch):
    """Sharing compares the framed images; it does not assume that the frame is right."""
    monkeypatch.setattr("spectral_vmamba.models.framing.quarter_frame", lambda images: (images, None))
    model = replace_tokenizer_rotations(predictor.model)
    (sweep,) = evaluate(replace(predictor, model=model), rotations=90, batch_size=40).sweeps
    assert min(point.max_change for point in sweep.quarters) > 0


def replace_tokenizer_rotations(model):
    """The same network without RFN, which alone would make it invariant to quarter turns."""
    model = deepcopy(model)
    model.tokenizer.rfn.turns = 1
    return model


def test_the_images_that_selected_the_epoch_are_named(run, predictor):
    assert evaluate(run.folder).selected_epoch
    assert evaluate(run.folder, split="val").selected_epoch
    assert not evaluate(run.folder, read_digits().subset(np.arange(4))).selected_epoch
    with pytest.raises(ValueError, match="held out no test images"):
        evaluate(run.folder, split="test")


def test_one_set_of_weights_at_a_time(run):
    with pytest.raises(ValueError, match="expected weights best, ema or raw, got 'all'; to compare several"):
        evaluate(run.folder, weights="all")
    averaged = evaluate(run.folder, weights="ema")
    assert averaged.scores.top1 == run.history[run.best["epoch"] - 1].ema


def test_predictions_are_those_of_the_predictor(predictor):
    images = read_digits().subset(np.arange(300, 330))
    evaluation = evaluate(predictor, images)
    expected = predictor.predict([images.open(i) for i in range(30)], top=1)
    predicted = [predictor.classes[each.predicted] for each in evaluation.predictions]
    assert predicted == [each.label for each in expected]
    assert evaluation.mean_confidence == pytest.approx(np.mean([each.probabilities[0] for each in expected]), rel=1e-6)
    wrong = [each for each in evaluation.predictions if each.label != each.predicted]
    assert sorted(evaluation.mistakes, key=lambda each: each.index) == wrong
    confidences = [each.probability for each in evaluation.mistakes]
    assert confidences == sorted(confidences, reverse=True)


def test_a_sweep_is_predictions_of_rotated_pixels(predictor):
    images = read_digits().subset(np.arange(9))
    transform = predictor.preprocessing.eval_transform()
    pixels = torch.stack([transform(images.open(i)).pixels for i in range(9)])
    labels = torch.from_numpy(images.labels)
    batches = [(pixels[:5], labels[:5]), (pixels[5:], labels[5:])]
    point = measure_sweep("x", predictor.probabilities, batches, [0, 30, 90]).points[1]
    upright, rotated = (predictor.probabilities(rotate_pixels(pixels, angle, "black")) for angle in (0, 30))
    assert point.correct == int((rotated.argmax(1) == labels).sum())
    assert point.agreeing == int((rotated.argmax(1) == upright.argmax(1)).sum())
    assert point.max_change == pytest.approx(float((rotated - upright).abs().max()), abs=1e-7)  # measured: 0


@pytest.mark.parametrize("workers", [0, 1])
def test_unreadable_images_are_left_out_and_listed(predictor, workers):
    """The first batch has no readable image at all."""
    images = read_digits().subset(np.arange(14))
    unreadable = (0, 1, 2, 3, 5)
    evaluation = evaluate(predictor, make_unreadable(images, *unreadable), rotations=180, batch_size=4, workers=workers)
    assert evaluation.unreadable == [ReadError(i, f"digits#{i}", f"image {i} is damaged") for i in unreadable]
    readable = evaluate(predictor, images.subset(np.array([4, *range(6, 14)])), rotations=180)
    assert readable.unreadable == []
    assert evaluation.scores.confusion == readable.scores.confusion
    assert [(point.images, point.correct) for point in evaluation.sweeps[0].points] == [
        (9, point.correct) for point in readable.sweeps[0].points
    ]


def test_no_readable_image_is_an_error(predictor):
    with pytest.raises(ValueError, match="none of the 2 images can be read, for example digits#0"):
        evaluate(predictor, make_unreadable(read_digits().subset(np.arange(2)), 0, 1))


def test_unlabeled_images_are_rejected(predictor):
    images = read_digits().subset(np.arange(3))
    with pytest.raises(ValueError, match="digits#1 has no label"):
        evaluate(predictor, replace(images, labels=np.array([0, UNLABELED, 1])))


def test_data_of_other_classes_is_rejected(predictor, tmp_path):
    (tmp_path / "data" / "cat").mkdir(parents=True)
    read_digits().open(0).save(tmp_path / "data" / "cat" / "x.png")
    with pytest.raises(ValueError, match="does not match the classifier: the class 'cat' is not one of '0', '1'"):
        evaluate(predictor, str(tmp_path / "data"))


def test_timm_models_can_be_evaluated(tmp_path):
    """With weights from a file."""
    import timm
    from safetensors.torch import save_file

    save_file(timm.create_model("resnet10t", num_classes=10).state_dict(), tmp_path / "r.safetensors")
    images = read_digits().subset(np.arange(8))
    predictor = load_timm("resnet10t", images.classes, tmp_path / "r.safetensors")
    evaluation = evaluate(predictor, images, rotations=90)
    assert evaluation.scores.images == 8
    assert len(evaluation.sweeps[0].points) == 4
    with pytest.raises(ValueError, match="does not come from a training run: specify the data"):
        evaluate(predictor)
