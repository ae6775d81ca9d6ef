"""Released checkpoints through timm's `pretrained=True`: other classes, channels and sizes than they were made for."""

import pytest
import torch

from spectral_vmamba.models import conversion, timm
from spectral_vmamba.models.vmamba import VMamba
from tests.models import test_local_vim, test_msvmamba, test_vim, test_vmamba

HIERARCHY = {"widths": (16, 32), "depths": (1, 1)}
ISOTROPIC = {"width": 16, "depth": 2, "patch_size": 4, "img_size": 16}
RELEASED = {
    "vmamba_tiny": (HIERARCHY, lambda model: test_vmamba.released(model, one_file=True, convolutions=True)),
    "msvmamba_tiny": (HIERARCHY, test_msvmamba.released),
    "vim_tiny": (ISOTROPIC, test_vim.released),
    "local_vim_tiny": (ISOTROPIC, test_local_vim.released),
    "spectral_vmamba_nano": ({**HIERARCHY, "traversal": "cross"}, lambda model: model.state_dict()),
    "spectral_vmamba_tiny": (
        {**HIERARCHY, "stem_weights": "none", "traversal": "cross", "canonical_frame": False},
        lambda model: model.state_dict(),
    ),
}


def saved(name, tmp_path):
    """A model, and the file that its authors would have released."""
    shape, released = RELEASED[name]
    model = timm.create_model(name, drop_path_rate=0.0, **shape).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) / 10)
    torch.save({"model": released(model)}, tmp_path / "released.pth")
    return model, tmp_path / "released.pth"


def pretrained(name, path, **options):
    overlay = {"file": str(path)}
    return timm.create_model(
        name, pretrained=True, pretrained_cfg_overlay=overlay, **{**RELEASED[name][0], **options}
    ).eval()


def pooled(model, images):
    return model.forward_head(model.forward_features(images), pre_logits=True)


@pytest.mark.parametrize("name", RELEASED)
def test_pretrained_weights_are_translated_and_fitted(name, tmp_path):
    model, path = saved(name, tmp_path)
    size = {"img_size": (24, 32)} if "vim" in name else {}
    gray = torch.randn(2, 1, 48, 64) if name == "spectral_vmamba_tiny" else torch.randn(2, 1, 24, 32)
    color = gray.expand(-1, 3, -1, -1).contiguous()
    with torch.no_grad():
        torch.testing.assert_close(pretrained(name, path)(color), model(color))
        other = pretrained(name, path, num_classes=5, in_chans=1, **size)
        assert other(gray).shape == (2, 5)
        torch.testing.assert_close(pooled(other, gray), pooled(model, color), rtol=1e-3, atol=1e-4)
    if size:
        tokens = 6 * 8 + (other.cls_token is not None)
        assert other.pos_embed.shape == (1, tokens, 16)
        assert model.pos_embed.shape != other.pos_embed.shape


@pytest.mark.parametrize("classes", [1000, 5])
@pytest.mark.parametrize("name", RELEASED)
def test_another_architecture_is_refused_by_name(name, classes, tmp_path):
    """For another number of classes too, where timm by itself forgives everything."""
    other = "vim_tiny" if name == "vmamba_tiny" else "vmamba_tiny"
    _, path = saved(other, tmp_path)
    with pytest.raises(RuntimeError, match=r"(?s)Missing keys: .*\.weight.* Unexpected keys: .*\.weight"):
        pretrained(name, path, num_classes=classes)


def test_positions_that_cannot_be_of_a_square_grid_are_refused(tmp_path):
    model = timm.create_model("vim_tiny", **{**ISOTROPIC, "img_size": (12, 20)})
    torch.save(test_vim.released(model), tmp_path / "released.pth")
    with pytest.raises(RuntimeError, match=r"pos_embed.*\[1, 16, 16\].*\[1, 17, 16\]"):
        pretrained("vim_tiny", tmp_path / "released.pth")


@pytest.mark.parametrize(
    ("found", "own", "same"),
    [
        ((8, 1), (8,), True),
        ((8, 4, 1, 1), (8, 4), True),
        ((8, 4), (1, 8, 4), True),
        ((8, 4), (2, 4, 4), True),
        ((64, 1), (4, 16, 1), True),
        ((64,), (4, 16), True),
        ((4, 8), (8, 4), False),
        ((4, 8), (32,), True),
        ((8, 4), (4, 2, 4, 1), True),
        ((4, 2, 4), (4, 8), False),
        ((2, 16), (8, 4), False),
        ((8, 5), (8, 4), False),
    ],
)
def test_only_the_same_numbers_are_laid_out_anew(found, own, same):
    assert conversion._same_numbers(found, own) is same
    assert conversion._same_numbers(own, found) is same


def test_a_transposed_weight_is_refused():
    model = VMamba(num_classes=2, **HIERARCHY)
    state = model.state_dict()
    name = "stages.0.blocks.0.mlp.0.weight"
    with pytest.raises(RuntimeError, match=f"size mismatch for {name}"):
        model.load_state_dict({**state, name: state[name].T.contiguous()})
