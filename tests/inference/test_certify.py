"""Certificates of invariance to quarter turns."""

import numpy as np

from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.inference import certify
from spectral_vmamba.inference.certify import Certificate
from tests.support.image_folders import write_photographs
from tests.support.runs import VAL
from tests.support.storages import make_unreadable


def test_an_invariant_network_gets_the_certificate(run):
    certificate = certify(run.folder)
    assert (certificate.flips, certificate.max_change, certificate.images) == (0, 0.0, VAL)
    assert certificate.holds
    assert certificate.unreadable == []


def test_a_network_that_is_not_invariant_does_not(plain_run):
    certificate = certify(plain_run.folder)
    assert certificate.flips > 0
    assert certificate.max_change > 0.1
    assert not certificate.holds


def test_folders_need_no_labels_and_unreadable_images_are_listed(predictor, tmp_path):
    write_photographs(tmp_path / "deep", 3)
    (tmp_path / "bad.png").write_bytes(b"no image")
    certificate = certify(predictor, str(tmp_path), batch_size=1)
    assert (certificate.images, certificate.holds) == (3, True)
    reason = f"{tmp_path}/bad.png cannot be read as an image: unknown format"
    assert certificate.unreadable == [ReadError(0, "bad.png", reason)]


def test_nothing_is_certified_without_a_readable_image(predictor):
    certificate = certify(predictor, make_unreadable(read_digits().subset(np.arange(2)), 0, 1))
    assert (certificate.images, len(certificate.unreadable)) == (0, 2)
    assert not certificate.holds


def test_the_tolerance_applies_to_probabilities_and_not_to_flips():
    assert Certificate("x", 5, 0, 1e-6, tolerance=1e-5).holds
    assert not Certificate("x", 5, 0, 2e-5, tolerance=1e-5).holds
    assert not Certificate("x", 5, 0, float("nan"), tolerance=1e-5).holds
    assert not Certificate("x", 5, 1, 0.0, tolerance=1e-5).holds
