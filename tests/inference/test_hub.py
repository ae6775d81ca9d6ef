"""Folders for the hub rebuild networks with their options, and notice when options are missing or different."""

import json
import warnings

import pytest
import torch
from timm.models import save_for_hf

from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference import Predictor, save_for_hub
from spectral_vmamba.models import invariant, timm
from spectral_vmamba.testing import activate_scan
from tests.support.models import build

OPTIONS = {"turns": 8, "domain": "disk", "neighbors": "none"}  # none of them changes the shape of a tensor


@pytest.fixture(scope="module")
def model():
    return activate_scan(build("spectral_vmamba_nano", **OPTIONS)).eval()


@pytest.fixture(scope="module")
def images():
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def load(folder, **options):
    return timm.create_model(f"local-dir:{folder}", pretrained=True, **options).eval()


def edit_config(folder, edit):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    edit(config)
    path.write_text(json.dumps(config))


def test_options_come_back(model, images, tmp_path):
    classes = [f"class {i}" for i in range(7)]
    with warnings.catch_warnings(action="error"), torch.no_grad():
        again = load(save_for_hub(model, tmp_path / "folder", classes))
        assert torch.equal(again(images), model(images))
        assert not torch.equal(build("spectral_vmamba_nano").eval()(images), model(images))
    assert again.config == model.config
    assert again.pretrained_cfg["label_names"] == classes


def test_options_come_back_from_folders_of_timm(model, images, tmp_path):
    """timm's function forgets the keywords that a model was built with; our pretrained configuration has them."""
    save_for_hf(model, tmp_path, safe_serialization=True)
    with warnings.catch_warnings(action="error"), torch.no_grad():
        assert torch.equal(load(tmp_path)(images), model(images))


def test_other_options_are_noticed(model, tmp_path):
    folder = save_for_hub(model, tmp_path)
    with pytest.warns(UserWarning, match=r"other options: turns=4 \(saved with 8\)\. Omit"):
        load(folder, turns=4)
    edit_config(folder, lambda config: config["model_args"].update(domain="square"))
    with pytest.warns(UserWarning, match=r"domain='square' \(saved with 'disk'\)"):
        load(folder)


def test_missing_options_are_noticed(model, tmp_path):
    folder = save_for_hub(model, tmp_path)
    edit_config(folder, lambda config: (config.pop("model_args"), config["pretrained_cfg"].pop("model_args")))
    with pytest.warns(UserWarning, match=r"does not record the options of spectral_vmamba_nano.*save_for_hub"):
        load(folder)


def test_unknown_options_are_refused(model, tmp_path):
    folder = save_for_hub(model, tmp_path)
    edit_config(folder, lambda config: config["pretrained_cfg"]["model_args"].update(stem_weights="/x", wings=3))
    with pytest.raises(ValueError, match=r"SpectralConfig does not have: \['stem_weights', 'wings'\]"):
        load(folder)


@pytest.mark.parametrize("name", ["vmamba_nano", "msvmamba_pico", "vim_nano", "local_vim_nano", "resnet18"])
def test_every_family_and_models_of_timm(name, tmp_path):
    model = timm.create_model(name, num_classes=3).eval()
    x = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(load(save_for_hub(model, tmp_path))(x), model(x))


def test_channels_and_pooling_come_back(tmp_path):
    model = build("spectral_vmamba_nano", in_chans=4, global_pool="max").eval()
    x = torch.randn(2, 4, 32, 32)
    with torch.no_grad():
        assert torch.equal(load(save_for_hub(model, tmp_path))(x), model(x))


def test_a_predictor_brings_classes_and_preprocessing(model, tmp_path):
    preprocessing = Preprocessing(48, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), 0.8, "bilinear")
    classes = tuple("abcdefg")
    predictor = Predictor("spectral_vmamba_nano", model, classes, preprocessing, torch.device("cpu"))
    cfg = load(save_for_hub(predictor, tmp_path)).pretrained_cfg
    assert tuple(cfg["label_names"]) == classes
    assert tuple(cfg["input_size"]) == (3, 48, 48)
    assert tuple(cfg["pool_size"]) == (3, 3)
    assert (tuple(cfg["mean"]), tuple(cfg["std"])) == (preprocessing.mean, preprocessing.std)
    assert (cfg["crop_pct"], cfg["interpolation"]) == (0.8, "bilinear")
    assert tuple(model.pretrained_cfg["input_size"]) == (3, 32, 32), "the model itself is not changed"


def test_a_wrong_number_of_classes_is_refused(model, tmp_path):
    with pytest.raises(ValueError, match=r"expected 7 classes.*got 2"):
        save_for_hub(model, tmp_path, ["a", "b"])


def test_a_network_of_timm_with_a_frame_is_refused(tmp_path):
    """timm would rebuild it without the frame."""
    model = invariant("resnet10t", frame="moment", num_classes=2)
    with pytest.raises(ValueError, match="timm cannot rebuild"):
        save_for_hub(model, tmp_path / "hub")
    assert not (tmp_path / "hub").exists()
