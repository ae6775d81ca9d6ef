"""Training of segmentation networks: it learns, resumes with the same bits, and reports what is wrong."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import spectral_vmamba
from spectral_vmamba.inference import load as load_classifier
from spectral_vmamba.inference.checkpoint import CheckpointError, load_checkpoint
from spectral_vmamba.segmentation import MaskAugmentation, Segmenter, fit_segmenter, load_segmenter
from spectral_vmamba.training import SilentReporter, fit
from tests.segmentation.conftest import segment_config, write_pairs
from tests.support.runs import NoteReporter, digits_config, tensors_equal

pytest.importorskip("segmentation_models_pytorch", reason="needs the extra `segment`")


def train(config, **options):
    return fit_segmenter(config, reporter=SilentReporter(), **options)


def test_training_learns(run):
    assert run.history[-1].loss < 0.7 * run.history[0].loss
    assert run.best["score"] > 0.7


def test_the_checkpoint_describes_the_network(run):
    header = load_checkpoint(run.folder / "best.safetensors").header
    assert header.classes == ("ground", "disk")
    assert header.masks.decoder.decoder == "fpn"
    assert header.masks.decoder.frame == "moment"
    assert (header.masks.ignore_index, header.masks.window) == (255, 512)


def test_load_returns_a_segmenter(run, pairs):
    segmenter = spectral_vmamba.load(run.folder)
    assert isinstance(segmenter, Segmenter)
    image = Image.open(pairs / "images" / "00.png")
    (result,) = segmenter.segment(image)
    assert result.mask.shape == (48, 48)
    assert sum(result.shares().values()) == pytest.approx(1)
    with pytest.raises(CheckpointError, match="contains a segmentation network"):
        load_classifier(run.folder)


def test_masks_turn_with_the_image_also_in_windows(run, pairs):
    segmenter = replace(load_segmenter(run.folder), window=32)
    pixels = np.asarray(Image.open(pairs / "images" / "01.png"))
    for image in (pixels, pixels[:, :40]):
        mask = segmenter.segment(image)[0].mask
        for quarters in range(1, 4):
            turned = segmenter.segment(np.ascontiguousarray(np.rot90(image, quarters)))[0].mask
            assert np.array_equal(turned, np.rot90(mask, quarters))


def test_a_resumed_run_has_the_same_bits(pairs, tmp_path):
    config = segment_config(pairs, tmp_path / "whole", epochs=2, ema=0.5)
    train(config)
    half = replace(config, output=str(tmp_path / "half"))
    stopped = []

    class Stop(SilentReporter):
        def epoch(self, report, best):
            stopped.append(report.epoch)
            raise RuntimeError("stopped by the test")

    with pytest.raises(RuntimeError, match="stopped by the test"):
        fit_segmenter(half, reporter=Stop())
    assert stopped == [1]
    train(half, resume=True)
    assert tensors_equal(tmp_path / "whole", tmp_path / "half")


def test_another_decoder_cannot_resume(pairs, tmp_path):
    config = segment_config(pairs, tmp_path / "run", epochs=1)
    train(config)
    with pytest.raises(ValueError, match="started with decoder = fpn"):
        train(replace(config, decoder="unet", decoder_options={}), resume=True)


def test_a_classifier_can_be_the_start(pairs, tmp_path):
    options = {"widths": (8, 16, 16), "depths": (1, 1, 1)}
    classifier = digits_config(tmp_path / "a", model="vmamba_nano", model_options=options, epochs=1, drop_path=None)
    fit(classifier, reporter=SilentReporter())
    config = segment_config(pairs, tmp_path / "b", steps=1, initial=str(tmp_path / "a"))
    config = replace(config, optimizer=replace(config.optimizer, lr=0.0, warmup_lr=0.0))
    train(config)
    weights = load_checkpoint(tmp_path / "a" / "best.safetensors").weights("best")
    backbone = load_segmenter(tmp_path / "b", "raw").model.backbone.state_dict()
    shared = [name for name in backbone if not name.startswith(("head", "norm."))]
    assert len(shared) > 20
    assert all(torch.equal(backbone[name], weights[name]) for name in shared)


def test_a_segmentation_network_with_other_classes_can_be_the_start(run, tmp_path):
    data = write_pairs(tmp_path / "data", count=6)
    (data / "classes.txt").write_text("sea\nisland\nreef\n")
    config = segment_config(data, tmp_path / "b", steps=1, initial=str(run.folder), frame="moment")
    train(config)
    assert load_segmenter(tmp_path / "b").classes == ("sea", "island", "reef")
    with pytest.raises(ValueError, match="does not match the backbone and decoder"):
        train(replace(config, output=str(tmp_path / "c"), model_options={"widths": (8, 8, 8), "depths": (1, 1, 1)}))


def test_images_with_ignored_pixels_only(tmp_path):
    data = write_pairs(tmp_path / "data", count=4)
    for mask in (data / "masks").iterdir():
        Image.fromarray(np.full((48, 48), 255, np.uint8)).save(mask)
    result = train(segment_config(data, tmp_path / "run", steps=1))
    assert result.history[-1].loss == 0
    assert result.best["score"] == 0


def test_unreadable_pairs_are_listed(tmp_path):
    data = write_pairs(tmp_path / "data", count=8)
    Image.fromarray(np.zeros((10, 10), np.uint8)).save(data / "masks" / "03.png")
    (data / "images" / "05.png").write_bytes(b"no image")
    reporter = NoteReporter()
    config = segment_config(data, tmp_path / "run", epochs=1, batch_size=2, val_fraction=0.25, max_unreadable=0.5)
    fit_segmenter(config, reporter=reporter)
    listed = (tmp_path / "run" / "unreadable.txt").read_text()
    assert "has 10×10 pixels and the image 48×48" in listed
    assert "05.png" in listed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class_weights": (1.0,)}, "a weight for each of the 2 classes"),
        ({"class_weights": (1.0, -1.0)}, "weights of at least 0"),
        ({"size": 0}, "size of at least 1"),
        ({"decoder": "unnet"}, "did you mean unet"),
        ({"model": "resnet18", "pretrained": True, "initial": "x"}, "got both"),
    ],
)
def test_wrong_settings(changes, message, pairs, tmp_path):
    with pytest.raises(ValueError, match=message):
        train(segment_config(pairs, tmp_path / "run", **changes))


def test_balanced_weights_train(pairs, tmp_path):
    plain = train(segment_config(pairs, tmp_path / "a", steps=2))
    balanced = train(segment_config(pairs, tmp_path / "b", steps=2, class_weights="balanced"))
    assert balanced.history[0].loss != plain.history[0].loss


def test_views_are_cut_and_scaled(pairs, tmp_path):
    config = segment_config(pairs, tmp_path / "run", steps=1, size=80, augment=MaskAugmentation(rotation=180))
    assert train(config).history[0].loss > 0
