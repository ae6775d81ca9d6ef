"""The trained weights that ship with the package."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import spectral_vmamba
from spectral_vmamba.data.readers.digits import read_digits
from spectral_vmamba.models import shipped_weights, timm
from spectral_vmamba.models.shipped_weights import CATALOG_FILE, WEIGHTS_FOLDER, find_weights
from tests.support.models import KINDS

NAMES = tuple(shipped_weights.shipped_weights())
LARGEST_FILE = 6e6  # bytes

every_entry = pytest.mark.parametrize("name", NAMES)


@every_entry
def test_timm_and_load_build_the_same_network(name):
    model = timm.create_model(name, pretrained=True).eval()
    predictor = spectral_vmamba.load(name, device="cpu")
    size = predictor.preprocessing.size
    images = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0)) * 255
    with torch.no_grad():
        probabilities = model(predictor.inputs(images)).softmax(1)
    assert torch.equal(probabilities, predictor.probabilities(images))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert predictor.header.model == name.partition(".")[0]


@every_entry
def test_the_configuration_of_timm_is_complete(name):
    cfg, predictor = timm.get_pretrained_cfg(name), spectral_vmamba.load(name)
    preprocessing = predictor.preprocessing
    assert (cfg.label_names, cfg.num_classes) == (predictor.classes, len(predictor.classes))
    assert cfg.input_size == (3, preprocessing.size, preprocessing.size)
    assert (cfg.mean, cfg.std) == (preprocessing.mean, preprocessing.std)
    assert (cfg.crop_pct, cfg.interpolation) == (preprocessing.crop, preprocessing.interpolation)
    assert cfg.license
    assert cfg.description
    assert name in timm.list_pretrained("*")
    model = timm.create_model(name, pretrained=True)
    assert model.pretrained_cfg["tag"] == name.partition(".")[2]
    assert "state_dict" not in model.pretrained_cfg  # would hold the weights twice


@every_entry
def test_options_apply_without_the_weights_too(name):
    trained, fresh = (timm.create_model(name, pretrained=pretrained) for pretrained in (True, False))
    assert trained.config == fresh.config
    assert fresh.num_classes == trained.num_classes


@every_entry
def test_files_are_small_and_as_listed(name):
    weights = find_weights(name)
    assert weights.verified_path().stat().st_size < LARGEST_FILE
    assert {path.name for path in WEIGHTS_FOLDER.iterdir()} == {
        CATALOG_FILE,
        *(f"{each}.safetensors" for each in NAMES),
    }


def test_an_architecture_without_a_tag_has_weights_only_if_asked():
    architecture = NAMES[0].partition(".")[0]
    assert timm.get_pretrained_cfg(architecture).tag == "untrained"
    assert timm.create_model(architecture).num_classes == 1000
    assert timm.create_model(architecture, pretrained=True).pretrained_cfg["tag"] == NAMES[0].partition(".")[2]


def test_another_number_of_classes_replaces_the_classifier_alone():
    trained, other = timm.create_model(NAMES[0], pretrained=True), timm.create_model(NAMES[0], True, num_classes=3)
    assert other.head.out_features == 3
    loaded = other.state_dict()
    for key, tensor in trained.state_dict().items():
        assert key.startswith("head.") or torch.equal(tensor, loaded[key]), key


@pytest.mark.parametrize("load", [spectral_vmamba.load, spectral_vmamba.create_model, timm.create_model])
def test_unknown_tags_list_what_there_is(load):
    architecture = NAMES[0].partition(".")[0]
    with pytest.raises(ValueError, match=rf"no weights '{architecture}\.birds' ship with the package; .*{NAMES[0]}"):
        load(f"{architecture}.birds")


def test_names_of_files_are_no_names_of_weights():
    unshipped = next(name for name in KINDS if not shipped_weights.weights_of(name))
    for name in ("runs/photos.v2", "best.safetensors", "spectral_vmamba_nano.untrained", unshipped):
        assert find_weights(name) is None


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """A copy of the first file in a folder of its own, which may be damaged."""
    source = find_weights(NAMES[0]).path
    monkeypatch.setattr(shipped_weights, "WEIGHTS_FOLDER", tmp_path)
    (tmp_path / source.name).write_bytes(source.read_bytes())
    return tmp_path


@pytest.mark.parametrize("damage", ["truncated", "changed"])
def test_damaged_weights_are_named(own_folder, damage):
    (path,) = own_folder.iterdir()
    content = path.read_bytes()
    path.write_bytes(content[:-100] if damage == "truncated" else content[:-1] + bytes([content[-1] ^ 1]))
    for load in (spectral_vmamba.load, lambda name: timm.create_model(name, pretrained=True)):
        with pytest.raises(ValueError, match=r"is damaged or of another version of the package.*reinstall"):
            load(NAMES[0])


def test_missing_weights_are_named(own_folder):
    next(own_folder.iterdir()).unlink()
    for load in (spectral_vmamba.load, lambda name: timm.create_model(name, pretrained=True)):
        with pytest.raises(FileNotFoundError, match=r"the weights .* are missing at .*; reinstall"):
            load(NAMES[0])


def test_a_folder_of_the_same_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAMES[0]).mkdir()
    with pytest.raises(FileNotFoundError, match="no checkpoint at"):
        spectral_vmamba.load(NAMES[0])


def test_the_catalog_is_what_the_files_say():
    entries = json.loads((WEIGHTS_FOLDER / CATALOG_FILE).read_text(encoding="utf-8"))
    for name, weights in shipped_weights.shipped_weights().items():
        header = spectral_vmamba.load(name).header
        assert weights == replace(weights, classes=header.classes, model_options=header.model_options)
        assert entries[name]["sha256"] == weights.sha256
        assert header.training == {}  # settings hold the names of folders
        assert "/" not in header.split.data


def test_half_precision_is_converted_on_loading():
    state = find_weights(NAMES[0]).state_dict()
    assert {tensor.dtype for tensor in state.values()} == {torch.float32}
    assert all(np.isfinite(tensor.numpy()).all() for tensor in state.values())


def test_digits_are_read_at_every_angle():
    """The first 20 images are the digits 0 to 9, twice."""
    digits, predictor = read_digits(), spectral_vmamba.load("spectral_vmamba_nano.digits", device="cpu")
    images = [digits.open(i).convert("L").resize((64, 64), Image.Resampling.BICUBIC) for i in range(20)]
    for angle in (0, 90, 180, 270, 30, 45):
        answers = predictor.predict([image.rotate(angle, Image.Resampling.BICUBIC) for image in images], top=1)
        assert "".join(answer.label for answer in answers) == "01234567890123456789"
