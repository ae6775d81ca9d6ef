"""Any network of timm with a frame and turned copies."""

import pytest
import timm
import torch

import spectral_vmamba
from spectral_vmamba.models import InvariantModel, create_model, invariant
from spectral_vmamba.ops.frames import turned_copies
from spectral_vmamba.ops.turns import turn
from tests.support.models import ONE_PER_FAMILY, build, full_except

NAME = "resnet10t"


@pytest.fixture(scope="module")
def images(crops):
    return crops(3, 64)


@pytest.mark.parametrize("turns", [1, 4, 8])
@pytest.mark.parametrize("frame", ["quarter", "moment"])
def test_quarter_turns_give_the_same_bits(frame, turns, images):
    model = invariant(NAME, frame=frame, turns=turns, num_classes=5).eval()
    with torch.no_grad():
        logits = model(images)
        assert logits.shape == (3, 5)
        assert torch.equal(model(turn(images, 1)), logits)
        assert torch.equal(model(turn(images, 2)), logits)


def test_four_turns_alone_are_invariant_up_to_rounding(images):
    model = invariant(NAME, frame="none", turns=4, num_classes=5).double().eval()
    assert model.config.is_quarter_turn_invariant_without_frame
    with torch.no_grad():
        logits = model(images.double())
        torch.testing.assert_close(model(turn(images.double(), 1)), logits, rtol=1e-10, atol=1e-12)
        upright = model.model(images.double())
        assert (model.model(turn(images.double(), 1)) - upright).abs().max() > 1e-3, "the network itself is not"


def test_moment_keeps_the_logits_between_quarter_turns(images):
    """A random network: logits move less with the frame than without it."""
    from spectral_vmamba.testing import rotation_gap

    torch.manual_seed(0)
    network = timm.create_model(NAME, num_classes=5).eval()
    plain, posed = (rotation_gap(model, images, [33.0])[0] for model in (network, invariant(network)))
    assert posed.mean_difference < plain.mean_difference / 2


def test_pooled_features_are_the_mean_of_those_of_the_copies(images):
    model = invariant(NAME, frame="none", turns=4, num_classes=5).eval()
    network = model.model
    with torch.no_grad():
        each = [network.forward_head(network.forward_features(turn(images, q)), pre_logits=True) for q in range(4)]
        # one batch of twelve images rounds differently from four batches of three
        torch.testing.assert_close(model.forward_pooled(images), torch.stack(each).mean(0), rtol=1e-4, atol=1e-5)
        largest = invariant(network, "none", 4, "max").forward_pooled(images)
        torch.testing.assert_close(largest, torch.stack(each).amax(0), rtol=1e-4, atol=1e-5)


def test_a_module_and_a_name_give_the_same_model(images):
    network = timm.create_model(NAME, num_classes=5).eval()
    by_module, by_name = invariant(network), invariant(NAME, num_classes=5).eval()
    by_name.model.load_state_dict(network.state_dict())
    with torch.no_grad():
        assert torch.equal(by_module(images), by_name(images))
    with pytest.raises(TypeError, match="only with the name"):
        invariant(network, num_classes=3)


def test_maps_are_turned_back(images):
    model = invariant(NAME, frame="quarter", turns=1, num_classes=5).eval()
    with torch.no_grad():
        before, after = model.forward_features(images), model.forward_features(turn(images, 1))
        assert torch.equal(turn(before, 1), after)
        maps, turned = (model.forward_intermediates(x, intermediates_only=True) for x in (images, turn(images, 1)))
        assert all(torch.equal(turn(a, 1), b) for a, b in zip(maps, turned, strict=True))


def test_the_rest_is_that_of_the_network():
    model = invariant(NAME, num_classes=5)
    assert isinstance(model, InvariantModel)
    assert model.num_classes == 5
    assert model.pretrained_cfg["input_size"][0] == 3
    model.reset_classifier(7)
    assert model(torch.rand(2, 3, 64, 64)).shape == (2, 7)


def test_timm_finds_the_parameters_of_the_network():
    """Weight decay and depth go by the names of parameters, which begin with the wrapper's."""
    network = timm.create_model("vit_tiny_patch16_224", depth=2, num_classes=5)
    model = invariant(network, frame="moment")
    assert model.no_weight_decay() == {f"model.{name}" for name in network.no_weight_decay()}
    plain, wrapped = (
        timm.models.group_parameters(each, each.group_matcher(), reverse=True) for each in (network, model)
    )
    assert wrapped == {f"model.{name}": group for name, group in plain.items()}


@pytest.mark.parametrize(
    ("shape", "message"),
    [((3, 64, 64), r"add a batch axis"), ((2, 64, 64, 3), "move the channels first"), ((2, 1, 64, 64), "in_chans=1")],
)
def test_what_is_no_batch_of_images_is_refused(shape, message):
    model = invariant(NAME, frame="moment", num_classes=5)
    with pytest.raises(ValueError, match=message):
        model(torch.rand(shape))
    with pytest.raises(ValueError, match="floating point"):
        model(torch.zeros(1, 3, 64, 64, dtype=torch.uint8))


@pytest.mark.parametrize("name", full_except(ONE_PER_FAMILY))
def test_networks_of_this_package_take_turns(name, crops):
    model = build(name, frame="moment", turns=4).eval()
    images = crops(2, 32)
    with torch.no_grad():
        logits = model(images)
        assert logits.isfinite().all()
        assert torch.equal(model(turn(images, 1)), logits)
        torch.testing.assert_close(model(images[:1]), logits[:1], rtol=1e-4, atol=1e-5)  # convolutions of other batches


@pytest.mark.parametrize(("turns", "count"), [(1, 1), (2, 2), (4, 4), (12, 12)])
def test_copies_are_permuted_by_quarter_turns(turns, count):
    images = torch.rand(2, 3, 9, 9)
    copies, turned = turned_copies(images, turns), turned_copies(turn(images, 2), turns)
    assert len(copies) == count
    for copy in turned:
        # Between quarter turns, coordinates are rounded: by about 1e-6 pixels, and values are at most 1.
        differences = [float((copy - other).abs().max()) for other in copies]
        assert (min(differences) < (1e-5 if turns > 4 else 1e-12)) == (turns > 1)


@pytest.mark.parametrize("size", [(32, 33), (24, 40)], ids=str)
@pytest.mark.parametrize("name", ["vmamba_nano", "vim_nano"])
def test_four_turns_of_images_that_are_not_square(name, size, crops):
    """Copies keep their shapes: padding to a square would not be symmetric if the sides differ by an odd number."""
    model = build(name, frame="none", turns=4).double().eval()
    images = crops(2, size).double()
    assert [copy.shape[-2:] for copy in turned_copies(images, 4)] == [size, size[::-1], size, size[::-1]]
    with torch.no_grad():
        logits = model(images)
        for quarters in (1, 2, 3):
            torch.testing.assert_close(model(turn(images, quarters)), logits, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("turns", [0, 3, 6, 100, "random"])
def test_numbers_of_turns_that_are_refused(turns):
    with pytest.raises((ValueError, TypeError)):
        create_model("vmamba_nano", turns=turns)


def test_it_is_public():
    assert spectral_vmamba.invariant is invariant


def test_feature_extractors_of_timm_are_refused():
    with pytest.raises(ValueError, match=r"expected resnet18 without features_only.*forward_intermediates"):
        invariant("resnet18", features_only=True)
