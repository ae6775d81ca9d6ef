"""Certificates of invariance: what is promised, what is measured, and what fails."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.inference import Predictor, certify, load
from spectral_vmamba.inference.certificate import Certificate, Check, Promise
from spectral_vmamba.layers import RotationalFeatureNormalizer
from spectral_vmamba.models import timm
from spectral_vmamba.models.framing import quarter_frame
from spectral_vmamba.ops.turns import turn
from tests.support.image_folders import write_photographs
from tests.support.runs import VAL
from tests.support.storages import make_unreadable

FILES = ["png", "jpeg 90", "jpeg 75", "resized −2 %", "resized +2 %"]


def checks_of(certificate: Certificate) -> dict[str, Check]:
    """The checks by level, those of files by their condition."""
    return {check.condition if check.level == "files" else check.level: check for check in certificate.checks}


def verdicts(certificate: Certificate) -> dict[str, str]:
    return {name: check.verdict for name, check in checks_of(certificate).items()}


@pytest.fixture(scope="module")
def certificate(run) -> Certificate:
    return certify(run.folder, angles=(15, 90))


def test_spectral_vmamba_keeps_every_promise(certificate):
    measured = dict.fromkeys(FILES[1:], "measured")
    assert verdicts(certificate) == {"tensor": "passed", "no-frame": "passed", "png": "passed", **measured} | {
        "angles": "measured"
    }
    assert certificate.holds
    assert (certificate.flips, certificate.max_change, certificate.images) == (0, 0.0, VAL)
    assert certificate.unreadable == []
    assert certificate.summarize() == "passed: 3 of 3 promised conditions hold"


def test_same_bits_with_the_frame_and_rounding_without(certificate):
    checks = checks_of(certificate)
    assert checks["tensor"].promise.tolerance == checks["png"].promise.tolerance == 0
    assert checks["no-frame"].promise.tolerance == 1e-5
    assert checks["no-frame"].max_change < 1e-5  # measured: 2.4e-7


def test_files_are_really_changed(certificate):
    checks = checks_of(certificate)
    for condition in FILES[1:]:
        assert checks[condition].max_change > 1e-3
        assert (checks[condition].images, checks[condition].comparisons) == (VAL, 3 * VAL)
    assert checks["jpeg 75"].max_change > checks["jpeg 90"].max_change


def test_one_row_per_angle_and_quarter_turns_among_them(certificate):
    fifteen, ninety = (check for check in certificate.checks if check.level == "angles")
    assert (fifteen.condition, ninety.condition) == ("15° black", "90° black")
    assert fifteen.max_change > 0.01
    assert (ninety.flips, ninety.max_change) == (0, 0)


def test_vmamba_promises_nothing(plain_run):
    certificate = certify(plain_run.folder, limit=20)
    assert set(verdicts(certificate).values()) == {"measured"}
    assert not certificate.holds
    assert certificate.flips > 0
    assert certificate.max_change > 0.1
    assert certificate.summarize().startswith("nothing to certify: this network promises no level; measured: ")


def test_vmamba_with_a_canonical_frame_promises_same_bits_but_nothing_without_it(framed_run):
    certificate = certify(framed_run.folder, limit=20)
    results = verdicts(certificate)
    assert {name for name, verdict in results.items() if verdict == "passed"} == {"tensor", "png"}
    assert results["no-frame"] == "measured"
    assert checks_of(certificate)["no-frame"].flips > 0
    assert certificate.holds


def test_a_frame_that_leaves_some_images_unturned_fails(framed_run, monkeypatch):
    def broken_frame(images):
        framed, frame = quarter_frame(images)
        framed[:3] = turn(images[:3], 0)
        return framed, frame

    monkeypatch.setattr("spectral_vmamba.models.framing.quarter_frame", broken_frame)
    certificate = certify(framed_run.folder, limit=20)
    assert [(check.level, check.verdict) for check in certificate.failed] == [("tensor", "FAILED")]
    assert not certificate.holds
    assert certificate.summarize() == "FAILED: 1 of 2 promised conditions hold; not tensor (quarter turns)"


def test_a_broken_rfn_fails_only_without_the_frame(run, monkeypatch):
    def without_half_turns(self, images, stem):
        views = [[turn(maps, -q) for maps in self._features(turn(images, q), stem)] for q in (0, 1)]
        return [torch.maximum(*level) for level in zip(*views, strict=True)]

    monkeypatch.setattr(RotationalFeatureNormalizer, "_over_quarter_turns", without_half_turns)
    results = verdicts(certify(run.folder, limit=20))
    assert (results["tensor"], results["no-frame"], results["png"]) == ("passed", "FAILED", "passed")


def test_switching_the_frame_off_leaves_the_model_as_it_was(run):
    predictor = load(run.folder)
    certify(predictor, levels=["no-frame"], limit=4)
    assert predictor.model.config.frame == "quarter"
    assert predictor.model.tokenizer.config.frame == "quarter"


def test_networks_of_timm_promise_nothing():
    torch.manual_seed(0)
    model = timm.create_model("mobilenetv3_small_050", num_classes=10)
    preprocessing = Preprocessing(32, (0.5,) * 3, (0.5,) * 3)
    classes = tuple(map(str, range(10)))
    predictor = Predictor("mobilenet", model, classes, preprocessing, torch.device("cpu"))
    certificate = certify(predictor, read_digits().subset(np.arange(8)))
    assert set(verdicts(certificate).values()) == {"measured"}
    canonical = replace(predictor, preprocessing=replace(preprocessing, frame="quarter"))
    assert verdicts(certify(canonical, read_digits().subset(np.arange(8))))["png"] == "passed"


def test_folders_need_no_labels_and_unreadable_images_are_listed(predictor, tmp_path):
    write_photographs(tmp_path / "deep", 3)
    (tmp_path / "bad.png").write_bytes(b"no image")
    certificate = certify(predictor, str(tmp_path), batch_size=1, levels=["tensor"])
    assert (certificate.images, certificate.dataset_size, certificate.holds) == (3, 4, True)
    reason = f"{tmp_path}/bad.png cannot be read as an image: unknown format"
    assert certificate.unreadable == [ReadError(0, "bad.png", reason)]
    assert certificate.describe_images() == f"checked 3 of 4 images: {tmp_path}; 1 could not be read"


def test_nothing_is_certified_without_a_readable_image(predictor):
    certificate = certify(predictor, make_unreadable(read_digits().subset(np.arange(2)), 0, 1), levels=["tensor"])
    assert (certificate.images, len(certificate.unreadable)) == (0, 2)
    assert not certificate.holds


def test_a_limit_takes_a_seeded_sample(predictor):
    def checked(seed: int) -> tuple:
        certificate = certify(predictor, levels=[], angles=[15, 40], limit=5, seed=seed)
        assert {check.images for check in certificate.checks} == {5}
        return tuple(check.max_change for check in certificate.checks)

    assert checked(0) == checked(0)
    assert checked(0) != checked(1)


def test_levels_are_chosen(predictor):
    certificate = certify(predictor, levels=["no-frame"], limit=4)
    assert [check.level for check in certificate.checks] == ["no-frame"]
    with pytest.raises(ValueError, match="the level tensor was not checked"):
        _ = certificate.flips


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": ["pixels"]}, "expected levels from tensor, no-frame, files, got 'pixels'"),
        ({"levels": []}, "expected levels from tensor, no-frame, files, got none"),
        ({"limit": 0}, "expected a limit of at least 1 image, got 0"),
        ({"angles": [10], "fill": "disk", "expand": True}, "an expanded canvas has black corners"),
        ({"expand": True}, "an expanded canvas needs angles"),
        ({"angles": [10], "fill": "white"}, "expected a fill from black, reflect, disk, got 'white'"),
    ],
)
def test_wrong_options_are_named(predictor, options, message):
    with pytest.raises(ValueError, match=message):
        certify(predictor, **options)


@pytest.mark.parametrize(
    ("tolerance", "flips", "max_change", "verdict"),
    [
        (1e-5, 0, 1e-6, "passed"),
        (1e-5, 0, 2e-5, "FAILED"),
        (1e-5, 0, float("nan"), "FAILED"),
        (1e-5, 1, 0.0, "FAILED"),
        (0.0, 0, 0.0, "passed"),
        (0.0, 0, 1e-12, "FAILED"),
        (None, 0, 0.0, "measured"),
    ],
)
def test_a_promise_covers_probabilities_and_flips(tolerance, flips, max_change, verdict):
    check = Check("tensor", "quarter turns", Promise(tolerance, "Why."), 5, 15, flips, max_change)
    certificate = Certificate("x", "y", 5, (check,))
    assert (check.verdict, certificate.holds) == (verdict, verdict == "passed")


def test_the_certificate_is_json(certificate):
    stored = json.loads(json.dumps(certificate.to_json_dict()))
    assert stored["holds"] is True
    assert stored["checks"][1]["promise"]["tolerance"] == 1e-5
    assert [check["verdict"] for check in stored["checks"]].count("passed") == 3
