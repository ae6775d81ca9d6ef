"""Load released checkpoints by `load_state_dict`, timm's `checkpoint_path` and `pretrained=True`, also into networks of
other classes, channels and sizes. Where each tensor has to go is in test_released_names.py."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from spectral_vmamba.models import timm
from tests.support.models import perturb
from tests.support.released import convert_to_convolutions, convert_to_one_file, msvmamba_state, released_state
from tests.support.tolerances import assert_relatively_close

HIERARCHY = {"widths": (16, 32), "depths": (1, 1)}
VMAMBA, ISOTROPIC = {"depths": (1, 1, 1, 1)}, {"depth": 2}


@dataclass(frozen=True)
class Release:
    """A registered name, the options that build the part of it whose state `make_state` returns, and an image size."""

    name: str
    options: dict[str, Any]
    make_state: Callable[[], dict[str, Tensor]]
    size: tuple[int, int] = (24, 32)
    resized: dict[str, Any] = field(default_factory=dict)  # options for another position table


def perturbed_state(name: str, options: dict[str, Any]) -> dict[str, Tensor]:
    return perturb(timm.create_model(name, **options), 0.1).state_dict()


def vmamba(convert: Callable) -> Release:
    return Release("vmamba_tiny", VMAMBA, lambda: convert(released_state("vmamba_tiny", 1)))


def isotropic(name: str) -> Release:
    return Release(name, ISOTROPIC, lambda: released_state(name, 2), (96, 128), {"img_size": (96, 128)})


def msvmamba() -> Release:
    def make_state():
        return msvmamba_state(perturb(timm.create_model("msvmamba_tiny", **HIERARCHY), 0.1))

    return Release("msvmamba_tiny", HIERARCHY, make_state)


def spectral(name: str, size: tuple[int, int], **options) -> Release:
    options = {**HIERARCHY, "traversal": "cross", **options}
    return Release(name, options, lambda: perturbed_state(name, options), size)


RELEASES = {
    "vmamba": vmamba(dict),
    "vmamba in one file": vmamba(convert_to_one_file),
    "vmamba as convolutions": vmamba(convert_to_convolutions),
    "vmamba in one file as convolutions": vmamba(lambda state: convert_to_convolutions(convert_to_one_file(state))),
    "vim": isotropic("vim_tiny"),
    "local_vim": isotropic("local_vim_tiny"),
    "msvmamba": msvmamba(),
    "spectral_vmamba conv stem": spectral("spectral_vmamba_nano", (24, 32)),
    "spectral_vmamba timm stem": spectral("spectral_vmamba_tiny", (48, 64), stem_weights="none", frame="none"),
}
CHOSEN = [name for name in RELEASES if name not in ("vmamba in one file", "vmamba as convolutions")]
every_release = pytest.mark.parametrize("release", [RELEASES[name] for name in CHOSEN], ids=CHOSEN)


def save(state: dict[str, Tensor], tmp_path) -> str:
    torch.save({"model": state}, tmp_path / "released.pth")
    return str(tmp_path / "released.pth")


def create(release: Release, **options) -> Any:
    return timm.create_model(release.name, **{"drop_path_rate": 0.0, **release.options, **options}).eval()


def create_pretrained(release: Release, path: str, **options) -> Any:
    return create(release, pretrained=True, pretrained_cfg_overlay={"file": path}, **options)


def load(release: Release, state: dict[str, Tensor]) -> Any:
    model = create(release)
    model.load_state_dict(state)
    return model


@every_release
def test_every_way_loads_the_same_network(release, tmp_path):
    state = release.make_state()
    path, images = save(state, tmp_path), torch.randn(2, 3, *release.size)
    with torch.no_grad():
        expected = load(release, state)(images)
        assert expected.std() > 1e-3
        assert not torch.equal(create(release)(images), expected)
        assert torch.equal(create(release, checkpoint_path=path)(images), expected)
        assert torch.equal(create_pretrained(release, path)(images), expected)


@pytest.mark.parametrize("layout", [name for name in RELEASES if name.startswith("vmamba ")])
def test_all_layouts_of_vmamba_are_the_same_network(layout):
    usual, other = (RELEASES[name].make_state() for name in ("vmamba", layout))
    assert {key: tensor.shape for key, tensor in usual.items()} != {key: t.shape for key, t in other.items()}
    images = torch.randn(2, 3, 24, 32)
    with torch.no_grad():
        assert torch.equal(load(RELEASES[layout], other)(images), load(RELEASES["vmamba"], usual)(images))


@every_release
def test_pretrained_weights_fit_other_classes_channels_and_sizes(release, tmp_path):
    state = release.make_state()
    model = load(release, state)
    other = create_pretrained(release, save(state, tmp_path), num_classes=5, in_chans=1, **release.resized)
    gray = torch.randn(2, 1, *release.size)
    color = gray.expand(-1, 3, -1, -1).contiguous()
    with torch.no_grad():
        assert other(gray).shape == (2, 5)
        features, expected = (
            network.forward_head(network.forward_features(images), pre_logits=True)
            for network, images in ((other, gray), (model, color))
        )
    # The sum over the channels of the first convolution is rounded differently. Measured: at most 5e-7.
    assert_relatively_close(features, expected, 5e-6)
    if release.resized:
        assert other.pos_embed.shape == (1, 6 * 8 + (other.cls_token is not None), 192)
        assert model.pos_embed.shape != other.pos_embed.shape


@pytest.mark.parametrize("classes", [1000, 5])
@every_release
def test_checkpoints_of_other_architectures_are_refused_with_their_keys(release, classes, tmp_path):
    """Also for another number of classes, where timm itself ignores all missing and unexpected keys."""
    other = RELEASES["vim" if release.name == "vmamba_tiny" else "vmamba"]
    path = save(other.make_state(), tmp_path)
    with pytest.raises(RuntimeError, match=r"(?s)Missing keys: .*\.weight.* Unexpected keys: .*\.weight"):
        create_pretrained(release, path, num_classes=classes)


def test_position_tables_that_are_not_square_are_refused(tmp_path):
    state = {**RELEASES["vim"].make_state(), "pos_embed": torch.zeros(1, 16, 192)}
    with pytest.raises(RuntimeError, match=r"pos_embed.*\[1, 16, 192\].*\[1, 197, 192\]"):
        create_pretrained(RELEASES["vim"], save(state, tmp_path))


def test_class_tokens_are_refused_by_local_vim():
    state = {**RELEASES["local_vim"].make_state(), "cls_token": torch.zeros(1, 1, 192)}
    with pytest.raises(RuntimeError, match=r"(?s)Unexpected.*cls_token"):
        load(RELEASES["local_vim"], state)
