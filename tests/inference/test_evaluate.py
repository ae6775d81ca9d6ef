"""What is measured is what is there."""

import numpy as np
import pytest
import torch

from spectral_vmamba.data.readers.digits import digits
from spectral_vmamba.inference import certify, evaluate, load, load_timm
from spectral_vmamba.metrics.classification import measure_scores
from spectral_vmamba.metrics.rotation import measure_sweep, sweep_angles
from spectral_vmamba.ops.turns import inscribed_disk, rotate_pixels
from spectral_vmamba.training import Silent, fit
from tests.support.runs import VAL, small


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return fit(small(folder, epochs=4), reporter=Silent())


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    options = {"widths": (8, 16), "depths": (1, 1)}
    return fit(small(folder, model="vmamba_nano", model_options=options, epochs=4), reporter=Silent())


def test_scores_by_hand():
    logits = torch.tensor([[3.0, 1, 0], [0, 2, 1], [0, 3, 1], [1, 0, 2]])
    scores = measure_scores(logits, torch.tensor([0, 1, 0, 1]))
    assert scores.top1 == 0.5
    assert scores.top5 == 1.0
    assert scores.per_class == [0.5, 0.5, None]
    assert scores.confusion == [[1, 1, 0], [0, 1, 1], [0, 0, 0]]
    confidence, right = logits.softmax(1).max(1).values, torch.tensor([1.0, 1.0, 0.0, 0.0])
    bins = (confidence * 15).ceil().long()
    error = sum(
        (bins == b).double().mean() * (confidence[bins == b].mean() - right[bins == b].mean()).abs()
        for b in bins.unique()
    )
    assert scores.calibration_error == pytest.approx(float(error), rel=1e-5)


def test_the_validation_accuracy_is_the_one_of_training(run):
    measured = evaluate(run.folder)
    assert measured.scores.top1 == run.best["top1"]
    assert measured.scores.images == VAL


def test_quarter_turns_change_nothing(run):
    """0 flips, the same bits: the first of the three promises, after training."""
    measured = evaluate(run.folder, rotations=45, fills=("black", "reflect", "disk"))
    assert [sweep.fill for sweep in measured.sweeps] == ["black", "reflect", "disk"]
    for sweep in measured.sweeps:
        assert [point.angle for point in sweep.points] == [0, 45, 90, 135, 180, 225, 270, 315]
        assert [point.flips for point in sweep.quarters] == [0, 0, 0]
        assert [point.max_change for point in sweep.quarters] == [0, 0, 0]
        assert {point.accuracy for point in sweep.quarters} == {sweep.upright.accuracy}
    certificate = certify(run.folder)
    assert (certificate.flips, certificate.max_change, certificate.images) == (0, 0.0, VAL)
    assert certificate.holds


def test_the_certificate_of_a_network_without_the_promise_is_refused(plain_run):
    certificate = certify(plain_run.folder)
    assert certificate.flips > 0
    assert not certificate.holds


def test_one_image_turned_on_its_own(run):
    """A sweep is nothing but predictions of turned pixels."""
    predictor, images = load(run.folder), digits().subset(np.arange(9))
    seen = torch.stack([predictor.preprocessing.pixels()(images.opener(i)) for i in range(9)])
    labels = torch.from_numpy(images.labels)
    sweep = measure_sweep("x", predictor.probabilities, [(seen[:5], labels[:5]), (seen[5:], labels[5:])], [0, 30, 90])
    before, after = (predictor.probabilities(rotate_pixels(seen, angle, "black")) for angle in (0, 30))
    point = sweep.points[1]
    assert point.correct == int((after.argmax(1) == labels).sum())
    assert point.agreeing == int((after.argmax(1) == before.argmax(1)).sum())
    assert point.max_change == pytest.approx(float((after - before).abs().max()), abs=1e-6)


def test_fills():
    pixels = torch.full((1, 3, 9, 9), 200.0)
    black, reflect, disk = (rotate_pixels(pixels, 45, fill) for fill in ("black", "reflect", "disk"))
    assert black[0, 0, 0, 0] == 0
    assert torch.allclose(reflect, pixels)
    assert disk[0, 0, 0, 0] == 0
    assert disk[0, 0, 4, 4] == pytest.approx(200)
    mask = inscribed_disk(*pixels.shape[-2:], pixels.device)
    assert torch.equal(mask, mask.rot90())
    assert mask[4].all()


def test_angles():
    assert sweep_angles(120) == [0, 90, 120, 180, 240, 270]
    assert len(sweep_angles(15)) == 24
    with pytest.raises(ValueError, match="step"):
        sweep_angles(0)


def test_data_of_other_classes_is_refused(run, tmp_path):
    digits().opener(0).save(tmp_path / "x.png")
    (tmp_path / "data" / "cat").mkdir(parents=True)
    (tmp_path / "x.png").rename(tmp_path / "data" / "cat" / "x.png")
    with pytest.raises(ValueError, match="'cat' is not among '0', '1'"):
        evaluate(run.folder, str(tmp_path / "data"))


def test_raw_and_averaged_weights_are_both_there(run):
    raw, averaged = (load(run.folder, weights) for weights in ("raw", "ema"))
    a, b = (next(predictor.model.parameters()) for predictor in (raw, averaged))
    assert not torch.equal(a, b)


def test_timm_models_are_measured_too(tmp_path):
    """Weights from a file: the outside ones of a timm network with another classifier."""
    import timm
    from safetensors.torch import save_file

    save_file(timm.create_model("resnet10t", num_classes=10).state_dict(), tmp_path / "r.safetensors")
    predictor = load_timm("resnet10t", digits().classes, tmp_path / "r.safetensors")
    measured = evaluate(predictor, digits().subset(np.arange(8)), rotations=90)
    assert measured.scores.images == 8
    assert len(measured.sweeps[0].points) == 4
