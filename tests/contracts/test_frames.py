"""With a frame, every registered network gives the same bits for all quarter turns of an image.

Weights are so large that a few layers show what is not invariant. Networks of published sizes are made narrow.
"""

import pytest
import torch
from torch import nn

from spectral_vmamba.models import create_model, find_family, is_cpu_scale, without_frame
from spectral_vmamba.ops.frames import quarter_frame
from spectral_vmamba.ops.turns import turn
from spectral_vmamba.testing import activate_scan, rotation_gap
from tests.support.models import KINDS, NAMES, ONE_PER_FAMILY, build, full_except, shallow_options

SIZES = [(32, 32), (24, 40)]
every_name = pytest.mark.parametrize("name", full_except(KINDS))
every_frame = pytest.mark.parametrize("frame", ["quarter", "moment"])
every_name_and_frame = pytest.mark.parametrize(
    ("name", "frame"),
    [
        pytest.param(name, frame, marks=() if name in default else pytest.mark.full)
        for frame, default in (("quarter", KINDS), ("moment", ONE_PER_FAMILY))
        for name in NAMES
    ],
)


def build_sensitive(name, **options):
    model = activate_scan(build(name, **({} if is_cpu_scale(name) else shallow_options(name)), **options)).eval()
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight)
    return model


@every_name_and_frame
def test_quarter_turns_give_the_same_bits(name, frame, crops):
    model = build_sensitive(name, frame=frame)
    assert model.config.is_quarter_turn_invariant
    for size in SIZES:
        images = crops(4, size)
        for gap in rotation_gap(model, images):
            assert gap.bitwise_equal
            assert gap.positions_unchanged in (1, None)
        with torch.no_grad():
            assert torch.equal(model(turn(images, 1)), model(images))


@every_name_and_frame
def test_feature_maps_are_turned_back(name, frame, crops):
    model = build_sensitive(name, frame=frame)
    images = crops(2, SIZES[1])
    with torch.no_grad():
        upright = model.forward_intermediates(images, norm=True, intermediates_only=True)
        for quarters in (1, 2, 3):
            turned = model.forward_intermediates(turn(images, quarters), norm=True, intermediates_only=True)
            for before, after in zip(upright, turned, strict=True):
                assert torch.equal(turn(before, quarters), after)


@every_name
def test_without_the_frame_the_layers_alone_decide(name, crops):
    model = build_sensitive(name, frame="quarter")
    plain = without_frame(model)
    assert model.config.frame == "quarter", "the network itself is not changed"
    assert plain.config.frame == "none"
    assert all(a is b for a, b in zip(model.parameters(), plain.parameters(), strict=True))
    gaps = rotation_gap(plain, crops(4, SIZES[0]))
    if plain.config.is_quarter_turn_invariant_without_frame:
        assert all(gap.max_difference < 2e-5 for gap in gaps)  # the tolerance of test_invariance.py
    else:
        assert all(gap.max_difference > 1e-3 for gap in gaps)


@pytest.mark.parametrize("name", ONE_PER_FAMILY)
def test_an_image_already_in_its_frame_is_not_changed(name, crops):
    """The frame turns pixels and nothing else: on canonical images, the same bits as without it."""
    images = crops(4, SIZES[1])
    model = build_sensitive(name, frame="quarter")
    canonical, _ = quarter_frame(images)
    with torch.no_grad():
        for method in ("forward", "forward_features"):
            with_frame, without = getattr(model, method), getattr(without_frame(model), method)
            assert torch.equal(with_frame(canonical), without(canonical))


@every_frame
@pytest.mark.parametrize("name", ONE_PER_FAMILY)
def test_each_image_has_its_own_pose(name, frame, crops):
    model = build_sensitive(name, frame=frame)
    images = crops(4, 32)
    mixed = torch.cat([turn(image[None], i) for i, image in enumerate(images)])
    with torch.no_grad():
        assert torch.equal(model(mixed), model(images))


@pytest.mark.parametrize("name", ["vim_nano", "local_vim_nano"])
def test_sequences_are_in_image_order(name, crops):
    model = build_sensitive(name, frame="quarter")
    images = crops(3, SIZES[1])
    with torch.no_grad():
        sequence, (maps,) = model.forward_intermediates(images, indices=[-1], norm=True)
        assert torch.equal(sequence, model.forward_features(images))
        (patches,) = model.forward_intermediates(
            images, indices=[-1], norm=True, output_fmt="NLC", intermediates_only=True
        )
        assert torch.equal(patches, maps.flatten(2).mT)
        pooled = model.forward_head(model.forward_features(images))
        torch.testing.assert_close(pooled, model(images))
        model.reset_classifier(0, "")
        assert torch.equal(model(images), sequence)


def test_the_default_is_on_for_spectral_vmamba_only():
    for name in ONE_PER_FAMILY:
        assert find_family(name).config(name).frame == ("quarter" if name == "spectral_vmamba_nano" else "none")
        assert create_model(name, frame="none").config.frame == "none"
