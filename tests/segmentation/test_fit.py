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
from spectral_vmamba.training.learner import make_schedule
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


class StopAfterAnEpoch(SilentReporter):
    def epoch(self, report, best):
        assert report.epoch == 1
        raise RuntimeError("stopped by the test")


def assert_resumes_with_the_same_bits(config, whole, half):
    train(replace(config, output=str(whole)))
    config = replace(config, output=str(half))
    with pytest.raises(RuntimeError, match="stopped by the test"):
        fit_segmenter(config, reporter=StopAfterAnEpoch())
    train(config, resume=True)
    assert tensors_equal(whole, half)


def test_a_resumed_run_has_the_same_bits(pairs, tmp_path):
    config = segment_config(pairs, tmp_path, epochs=2, ema=0.5)
    assert_resumes_with_the_same_bits(config, tmp_path / "whole", tmp_path / "half")


def test_a_trained_stem_is_stored_with_the_run(pairs, tmp_path):
    """The header has no digest of it: its weights change in training, and they resume with the same bits."""
    options = {"freeze_stem": False, "turns": 1, "stem_weights": "none"}
    config = segment_config(pairs, tmp_path, model="spectral_vmamba_lite", model_options=options, epochs=2, ema=0.5)
    assert_resumes_with_the_same_bits(config, tmp_path / "whole", tmp_path / "half")
    assert load_checkpoint(tmp_path / "whole" / "last.safetensors").header.stem_sha256 is None
    stems = [load_segmenter(tmp_path / "whole", weights).model.tokenizer.rfn.stem for weights in ("raw", "ema")]
    first, second = (next(stem.parameters()) for stem in stems)
    assert first.requires_grad
    assert not torch.equal(first, second)


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


def test_a_classifier_of_timm_can_be_the_start(tmp_path):
    classifier = digits_config(tmp_path / "a", model="resnet18", model_options={}, steps=1, drop_path=None)
    fit(classifier, reporter=SilentReporter())
    model = spectral_vmamba.create_segmenter("resnet18", "fpn", 3, initial=tmp_path / "a")
    weights = load_checkpoint(tmp_path / "a" / "best.safetensors").weights("best")
    backbone = model.backbone.state_dict()
    assert len(backbone) > 100
    assert all(torch.equal(backbone[name], weights[name]) for name in backbone)


def test_a_created_network_can_start_from_a_run(run):
    options = {"backbone_options": {"widths": (8, 16, 16), "depths": (1, 1, 1)}, "frame": "moment"}
    decoder = {"decoder_pyramid_channels": 16, "decoder_segmentation_channels": 32}
    model = spectral_vmamba.create_segmenter(
        "vmamba_nano", "fpn", 2, decoder_options=decoder, initial=run.folder, **options
    )
    created, loaded = model.state_dict(), load_segmenter(run.folder).model.state_dict()
    assert created.keys() == loaded.keys()
    assert all(torch.equal(created[name], loaded[name]) for name in created)


@pytest.mark.full
def test_the_frame_upright_trains_loads_and_resumes(pairs, tmp_path):
    small = {"widths": (8, 16), "depths": (1, 1), "eigenvectors": 1}
    settings = {"model": "spectral_vmamba_lite", "model_options": small, "frame": "upright", "size": 64}
    config = segment_config(pairs, tmp_path, epochs=2, **settings)
    assert_resumes_with_the_same_bits(config, tmp_path / "whole", tmp_path / "half")
    segmenter = load_segmenter(tmp_path / "half")
    assert segmenter.model.tokenizer.upright.is_fitted
    assert segmenter.segment(pairs / "images" / "00.png")[0].mask.shape == (48, 48)


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
    with pytest.raises(ValueError, match="all of them are ignored"):
        train(segment_config(data, tmp_path / "balanced", steps=1, class_weights="balanced"))


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
        ({"decoder": "upernet", "decoder_options": {}, "batch_size": 1}, "upernet needs at least 2 images in a step"),
        ({"decoder": "upernet", "decoder_options": {}, "accumulate": 4}, "upernet needs at least 2 images in a step"),
    ],
)
def test_wrong_settings(changes, message, pairs, tmp_path):
    with pytest.raises(ValueError, match=message):
        train(segment_config(pairs, tmp_path / "run", **changes))


def test_balanced_weights_train(pairs, tmp_path):
    plain = train(segment_config(pairs, tmp_path / "a", steps=2))
    balanced = train(segment_config(pairs, tmp_path / "b", steps=2, class_weights="balanced"))
    assert balanced.history[0].loss != plain.history[0].loss


def test_pixels_are_normalized_as_the_stem_expects(pairs, tmp_path):
    options = {"stem": "timm:tf_efficientnet_lite0", "patch_size": 16, "widths": (8, 16), "depths": (1, 1)}
    train(segment_config(pairs, tmp_path / "run", steps=1, model="spectral_vmamba_nano", model_options=options))
    assert load_segmenter(tmp_path / "run").preprocessing.mean == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("name", ["segment_lite", "segment_nano"])
def test_the_small_recipes_warm_up_for_epochs(name):
    """Not for the 1,500 steps of the supplement, which are more than these runs have."""
    config = spectral_vmamba.segment_recipe(name, data="x")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=config.optimizer.lr)
    schedule = make_schedule(optimizer, config.optimizer, 1.0, 30, 30 * config.epochs)
    rates = []
    for step in range(30 * config.epochs):
        schedule.step_update(step)
        rates.append(optimizer.param_groups[0]["lr"])
    assert np.argmax(rates) <= 30 * config.optimizer.warmup_epochs + 1
    assert rates[-1] < 0.01 * max(rates)


def test_views_are_cut_and_scaled(pairs, tmp_path):
    config = segment_config(pairs, tmp_path / "run", steps=1, size=80, augment=MaskAugmentation(rotation=180))
    assert train(config).history[0].loss > 0


def test_masks_of_0_and_255_without_colors_are_explained(tmp_path):
    folder = write_pairs(tmp_path / "pairs")
    for path in (folder / "masks").glob("*.png"):
        mask = np.asarray(Image.open(path))
        Image.fromarray(np.where(mask == 1, 255, mask).astype(np.uint8)).save(path)
    with pytest.raises(ValueError, match=r"no pixel of disk in \d+ training masks; \d+% of.*object 255 255 255"):
        train(segment_config(folder, tmp_path / "run"))


def test_classes_without_pixels_are_noted(tmp_path):
    folder = write_pairs(tmp_path / "pairs")
    (folder / "classes.txt").write_text("ground\ndisk\nbird\n")
    reporter = NoteReporter()
    fit_segmenter(segment_config(folder, tmp_path / "run", steps=1), reporter=reporter)
    assert sum(note.startswith("no pixel of bird in ") for note in reporter.notes) == 1


def test_validation_images_that_cannot_be_used_are_an_error(tmp_path):
    folder = tmp_path / "pairs"
    for part in ("train", "val"):
        source = write_pairs(tmp_path / part)
        for kind in ("images", "masks"):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            (source / kind).rename(folder / kind / part)
    (folder / "classes.txt").write_text("ground\ndisk\n")
    for path in (folder / "masks" / "val").glob("*.png"):
        Image.new("L", (9, 9)).save(path)
    with pytest.raises(ValueError, match=r"no validation image can be used: .*images/val/00.png"):
        train(segment_config(folder, tmp_path / "run", steps=1))


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({"decoder": "unet"}, {}),
        ({"decoder": "fpn"}, {"decoder_pyramid_channels": 64, "decoder_segmentation_channels": 64}),
        ({"decoder": "unet", "decoder_options": {"decoder_channels": (8, 8)}}, {"decoder_channels": (8, 8)}),
    ],
)
def test_another_decoder_does_not_get_the_options_of_the_recipes_decoder(changes, options):
    assert spectral_vmamba.segment_recipe("segment_lite", data="", **changes).decoder_options == options
