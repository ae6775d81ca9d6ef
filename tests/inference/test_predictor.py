"""Predictions do not depend on the form of an image, on its batch, or on its orientation."""

from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from spectral_vmamba.data import photographs
from spectral_vmamba.data.decode import image_to_tensor, to_pil
from spectral_vmamba.data.find import NamedImage, find_images
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.inference import Prediction, load, load_timm


@pytest.fixture(scope="module")
def photo():
    return Image.fromarray(photographs()["coffee"].permute(1, 2, 0).numpy())


def test_all_forms_of_an_image_give_the_same_prediction(predictor, photo, tmp_path):
    photo.save(tmp_path / "p.png")
    forms = [str(tmp_path / "p.png"), tmp_path / "p.png", (tmp_path / "p.png").read_bytes(), photo, np.asarray(photo)]
    predictions = predictor.predict([*forms, image_to_tensor(photo)])
    assert len(set(predictions)) == 1
    assert predictor.predict(photo)[0].classes == predictions[0].classes


def test_classes_are_sorted_by_probability(predictor, photo):
    (prediction,) = predictor.predict(photo, top=10)
    assert sorted(prediction.probabilities, reverse=True) == list(prediction.probabilities)
    assert sum(prediction.probabilities) == pytest.approx(1, abs=1e-7)  # measured: 1.5e-8
    assert sorted(prediction.classes) == list("0123456789")
    assert prediction.label == prediction.classes[0]
    assert len(predictor.predict(photo, top=99)[0].classes) == 10
    assert len(predictor.predict(photo, top=1)[0].classes) == 1


def test_quarter_turns_of_a_file_give_the_same_bits(predictor, photo):
    """A photograph of 600 × 400 pixels: resizing and cropping must also be independent of the turn."""
    pixels = np.asarray(photo)
    predictions = {predictor.predict(np.ascontiguousarray(np.rot90(pixels, turn)))[0] for turn in range(4)}
    assert len(predictions) == 1


def test_predictions_do_not_depend_on_the_batch(predictor):
    images = list(photographs().values())[:7]
    together = predictor.predict(images, batch_size=7)
    alone = predictor.predict(images, batch_size=1)
    for a, b in zip(together, alone, strict=True):
        assert a.classes == b.classes
        np.testing.assert_allclose(a.probabilities, b.probabilities, rtol=0, atol=1e-7)  # measured: 1.5e-8


@pytest.mark.parametrize("wrong", [np.zeros((4, 4)), np.zeros((2, 3, 4, 4), np.uint8), torch.zeros(3, 4, 4)])
def test_arrays_that_are_not_images_are_rejected(predictor, wrong):
    with pytest.raises(ValueError, match=r"expected .* of uint8"):
        predictor.predict([wrong])


def test_predict_raises_for_an_unreadable_file(predictor, photo, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"bad\.png cannot be read as an image: unknown format"):
        predictor.predict([photo, tmp_path / "bad.png"])


@pytest.mark.parametrize("batch_size", [1, 2, 10])
def test_a_stream_yields_predictions_and_read_errors_in_order(predictor, photo, tmp_path, batch_size):
    photo.save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"no image")
    photo.rotate(90, expand=True).save(tmp_path / "c.png")
    names = [str(tmp_path / name) for name in ("none.png", "a.png", "b.png", "c.png")]
    results = list(predictor.predict_stream(find_images(names), top=3, batch_size=batch_size))
    assert [name for name, _ in results] == names
    missing, first, damaged, second = (result for _, result in results)
    assert missing == ReadError(0, names[0], f"no image file at {names[0]}")
    assert damaged == ReadError(2, names[2], f"{names[2]} cannot be read as an image: unknown format")
    assert isinstance(first, Prediction)
    assert len(first.classes) == 3
    assert first.classes == second.classes


def test_a_stream_is_read_a_batch_at_a_time(predictor, photo):
    opened = []

    def open_image(i):
        opened.append(i)
        return to_pil(photo)

    images = (NamedImage(str(i), partial(open_image, i)) for i in range(100))
    assert next(predictor.predict_stream(images, batch_size=3))[0] == "0"
    assert opened == [0, 1, 2]


def test_settings_are_checked(predictor, photo):
    for name in ("top", "batch_size"):
        with pytest.raises(ValueError, match=f"expected {name} of at least 1, got 0"):
            predictor.predict(photo, **{name: 0})


def test_raw_and_averaged_weights_can_both_be_loaded(run):
    raw, averaged, best = (load(run.folder, weights) for weights in ("raw", "ema", "best"))
    a, b, c = (next(predictor.model.parameters()) for predictor in (raw, averaged, best))
    assert not torch.equal(a, b)
    assert torch.equal(c, {"raw": a, "ema": b}[run.best["weights"]])


def test_weights_of_timm_models_are_checked(tmp_path):
    with pytest.raises(FileNotFoundError, match="no weights at"):
        load_timm("resnet10t", ("a", "b"), tmp_path / "none.safetensors")
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "other.pth")
    with pytest.raises(ValueError, match=r"other\.pth do not match resnet10t with the classes 'a', 'b'"):
        load_timm("resnet10t", ("a", "b"), tmp_path / "other.pth")
