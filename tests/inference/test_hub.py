"""Folders for the hub rebuild networks with their options, and notice when options are missing or different."""

import json
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from timm.models import save_for_hf

from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference import Predictor, from_pretrained, save_for_hub
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


def test_from_pretrained_restores_the_predictor(model, tmp_path):
    preprocessing = Preprocessing(48, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), 0.8, "bilinear", "moment", borders=False)
    predictor = Predictor("spectral_vmamba_nano", model, tuple("abcdefg"), preprocessing, torch.device("cpu"))
    again = from_pretrained(save_for_hub(predictor, tmp_path))
    assert (again.name, again.classes, again.preprocessing) == (predictor.name, predictor.classes, preprocessing)
    assert again.model.config == model.config
    photograph = np.random.default_rng(0).integers(0, 256, (60, 50, 3), np.uint8)
    assert again.predict(photograph) == predictor.predict(photograph)


@pytest.mark.parametrize("name", ["vmamba_nano", "resnet10t"])
def test_from_pretrained_takes_folders_of_timm(name, tmp_path):
    model = timm.create_model(name, num_classes=2).eval()
    save_for_hf(model, tmp_path, model_config={"label_names": ["cat", "dog"]}, safe_serialization=True)
    predictor = from_pretrained(tmp_path)
    assert predictor.classes == ("cat", "dog")
    assert predictor.preprocessing.mean == tuple(model.pretrained_cfg["mean"])
    images = torch.rand(2, 3, 64, 64) * 255
    with torch.no_grad():
        assert torch.equal(predictor.probabilities(images), model(predictor.inputs(images)).softmax(1))


def test_from_pretrained_names_what_is_missing(model, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder nowhere; expected one, or OWNER/NAME"):
        from_pretrained("nowhere")
    with pytest.raises(FileNotFoundError, match=r"has no config\.json; expected a folder that save_for_hub"):
        from_pretrained(tmp_path)
    folder = save_for_hub(model, tmp_path / "unnamed")
    with pytest.raises(ValueError, match=r"names no classes, but has 7 outputs; pass classes"):
        from_pretrained(folder)
    with pytest.raises(ValueError, match=r"names 2 classes, but has 7 outputs"):
        from_pretrained(folder, ["cat", "dog"])
    assert from_pretrained(folder, list("abcdefg")).classes == tuple("abcdefg")


def test_from_pretrained_explains_damaged_folders(model, tmp_path):
    folder = save_for_hub(model, tmp_path, list("abcdefg"))
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(ValueError, match="its weights are damaged or of another network"):
        from_pretrained(folder)
    edit_config(folder, lambda config: config.update(preprocessing={"size": "large"}))
    save_file(model.state_dict(), weights)
    with pytest.raises(ValueError, match=r"preprocessing that cannot be read: expected a whole number for size"):
        from_pretrained(folder)
    edit_config(folder, lambda config: config.pop("architecture"))
    with pytest.raises(ValueError, match="does not name the architecture"):
        from_pretrained(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is not JSON"):
        from_pretrained(folder)


def test_from_pretrained_asks_the_hub_for_other_names(model, tmp_path, monkeypatch):
    """With the files that the hub would give: timm downloads config and weights by these functions."""
    folder = save_for_hub(model, tmp_path, list("abcdefg"))
    for module in ("spectral_vmamba.inference.hub", "timm.models._hub"):
        monkeypatch.setattr(f"{module}.download_from_hf", lambda name, file, **_: str(folder / file))
    monkeypatch.setattr("timm.models._hub.hf_hub_download", lambda *, repo_id, filename, **_: str(folder / filename))
    assert from_pretrained("someone/cats").classes == tuple("abcdefg")

    def offline(name, file):
        raise ConnectionError("no route to host")

    monkeypatch.setattr("spectral_vmamba.inference.hub.download_from_hf", offline)
    with pytest.raises(OSError, match=r"no folder someone/cats, and the hub does not give it: no route to host"):
        from_pretrained("someone/cats")


def test_a_wrong_number_of_classes_is_refused(model, tmp_path):
    with pytest.raises(ValueError, match=r"expected 7 classes.*got 2"):
        save_for_hub(model, tmp_path, ["a", "b"])


def test_a_network_of_timm_with_a_frame_is_refused(tmp_path):
    """timm would rebuild it without the frame."""
    model = invariant("resnet10t", frame="moment", num_classes=2)
    with pytest.raises(ValueError, match="timm cannot rebuild"):
        save_for_hub(model, tmp_path / "hub")
    assert not (tmp_path / "hub").exists()
