"""Predictions do not depend on how a image comes, on its batch, or on the way it is turned."""

import numpy as np
import pytest
import torch
from PIL import Image

from spectral_vmamba.data import photographs
from spectral_vmamba.data.decode import as_tensor
from spectral_vmamba.inference import load
from spectral_vmamba.training import Silent, fit
from tests.support.runs import small


@pytest.fixture(scope="module")
def predictor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    fit(small(folder, epochs=1), reporter=Silent())
    return load(folder)


@pytest.fixture(scope="module")
def photo():
    return Image.fromarray(photographs()["coffee"].permute(1, 2, 0).numpy())


def test_the_same_image_in_every_form(predictor, photo, tmp_path):
    photo.save(tmp_path / "p.png")
    forms = [str(tmp_path / "p.png"), tmp_path / "p.png", (tmp_path / "p.png").read_bytes(), photo, np.asarray(photo)]
    said = predictor.predict([*forms, as_tensor(photo)])
    assert len(set(said)) == 1
    assert predictor.predict(photo)[0].classes == said[0].classes


def test_classes_come_likeliest_first(predictor, photo):
    (said,) = predictor.predict(photo, top=10)
    assert sorted(said.probabilities, reverse=True) == list(said.probabilities)
    assert sum(said.probabilities) == pytest.approx(1, abs=1e-5)
    assert sorted(said.classes) == list("0123456789")
    assert said.label == said.classes[0]
    assert len(predictor.predict(photo, top=99)[0].classes) == 10


def test_files_turned_by_a_quarter_give_the_same_bits(predictor, photo):
    """A photograph of 600 × 400 pixels: also resizing and cropping must not tell the turns apart."""
    pixels = np.asarray(photo)
    answers = {predictor.predict(np.ascontiguousarray(np.rot90(pixels, turn)))[0] for turn in range(4)}
    assert len(answers) == 1


def test_batch_mates_do_not_matter(predictor):
    images = [image for image in photographs().values()][:7]
    together = predictor.predict(images, batch_size=7)
    alone = predictor.predict(images, batch_size=1)
    for a, b in zip(together, alone, strict=True):
        assert a.classes == b.classes
        assert np.allclose(a.probabilities, b.probabilities, atol=1e-6)


@pytest.mark.parametrize("bad", [np.zeros((4, 4)), np.zeros((2, 3, 4, 4), np.uint8), torch.zeros(3, 4, 4)])
def test_what_is_no_image_is_said(predictor, bad):
    with pytest.raises(ValueError, match=r"expected .* of uint8"):
        predictor.predict([bad])
