"""The networks as the paper's authors coded them, and each of their choices alone."""

import pytest
import torch
import torch.nn.functional as F

import spectral_vmamba
from spectral_vmamba.features.feature_store import frozen_tokenizer
from spectral_vmamba.layers import CornerDownsample, Downsample
from spectral_vmamba.metrics.rotation import rotation_gap
from spectral_vmamba.models import SpectralConfig, find_family
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.spectral import GraphRules, spectral_traversal
from spectral_vmamba.testing import activate_scan
from tests.support.models import build, build_on_meta, count_parameters, example_images
from tests.support.traversals import random_tokens

PUBLISHED = GraphRules("either", "unbridged", True, "batch", "first")
# Of each choice alone, without a frame: whether quarter turns change the logits.
CHOICES = [
    ({}, False),
    ({"edges": "mutual"}, False),
    ({"components": "unbridged"}, False),
    ({"components": "piecewise"}, False),
    ({"self_neighbor": True}, False),
    ({"distance_scale": "batch"}, False),
    ({"graph_features": "in_proj"}, False),
    ({"sign_rule": "first"}, True),
    ({"sign_rule": "nodes"}, True),
    ({"pooling": "corner"}, True),
]


def nano(**options):
    return activate_scan(build("spectral_vmamba_nano", frame="none", **options)).eval()


@pytest.mark.parametrize("size", ["nano", "tiny", "small", "base"])
def test_published_networks_differ_in_these_choices_only(size):
    ours, published = (find_family(name).config(name) for name in names(size))
    changed = {
        name: value for name, value in vars(published).items() if value != getattr(ours, name) and name != "frame"
    }
    assert changed == {
        "graph_features": "in_proj",
        "self_neighbor": True,
        "distance_scale": "batch",
        "components": "unbridged",
        "sign_rule": "first",
        "pooling": "corner",
    }
    assert (ours.frame, published.frame) == ("quarter", "none")
    assert published.rules == PUBLISHED
    assert not published.is_quarter_turn_invariant
    assert not published.has_fixed_orders
    weights = [{key: value.shape for key, value in build_on_meta(name).state_dict().items()} for name in names(size)]
    assert weights[0] == weights[1]  # weights of the one load into the other


def names(size):
    return f"spectral_vmamba_{size}", f"spectral_vmamba_{size}_published"


def test_tiny_has_the_parameters_of_the_authors():
    model = build_on_meta("spectral_vmamba_tiny_published", num_classes=100, stem_weights="none")
    assert sum(count_parameters(part) for part in (model.stages, model.norm, model.head)) == 203_988_068


@pytest.mark.parametrize(("options", "changes"), CHOICES, ids=str)
def test_which_choices_break_the_invariance(crops, options, changes):
    model = nano(**options)
    assert model.config.is_quarter_turn_invariant == (not changes)
    gaps = rotation_gap(model, crops(24, 32), batch_size=24)
    largest = max(gap.max_difference for gap in gaps)
    assert largest > 1e-3 if changes else largest < 2e-5  # see tests/contracts/test_invariance.py


@pytest.mark.parametrize("options", [options for options, _ in CHOICES], ids=str)
def test_only_the_scale_of_the_batch_mixes_images(crops, options):
    model, images = nano(**options), crops(8, 32)
    with torch.no_grad():
        gap = (model(images) - torch.cat([model(image[None]) for image in images])).abs().max()
    assert gap > 1e-4 if "distance_scale" in options else gap < 1e-5


def test_orders_of_the_first_projection(crops):
    model, images = nano(graph_features="in_proj"), crops(4, 32)
    with torch.no_grad():
        stem, grid, _ = model.tokenizer.features(images)
        block = model.stages[0].blocks[0]
        entering = F.silu(F.linear(block.mixer_norm(model.project(stem)), block.mixer.in_proj.weight))
        expected = spectral_traversal(entering, grid)
        found = model.forward_traversals(images)[1][0]
        assert torch.equal(found.orders, expected.orders)
        assert not torch.equal(found.orders, spectral_traversal(stem, grid).orders)
        assert torch.equal(
            model(model.tokenizer(images)), model(images)
        )  # also from tokens, of which orders are renewed


@pytest.mark.parametrize("shape", [(6, 6), (7, 7), (5, 8), (1, 3)], ids=str)
def test_corners(shape):
    x, traversal = random_tokens(*shape)
    torch.manual_seed(0)
    layer = CornerDownsample(16, 32).double()
    y, halved = layer(x, traversal)
    maps = traversal.grid.to_map(layer.norm(layer.widen(x)))[..., ::2, ::2]
    assert torch.equal(y, maps.flatten(2).mT)
    assert halved.grid == traversal.grid.halve()
    ranks = traversal.grid.to_map(traversal.ranks.mT)[..., ::2, ::2].flatten(2)
    assert torch.equal(halved.ranks, ranks)
    assert Downsample(16, 32).double()(x, traversal)[0].shape == y.shape


def test_patterns_are_those_of_the_halved_grid(crops):
    model = nano(traversal="cross", pooling="corner")
    with torch.no_grad():
        orders = model.forward_traversals(crops(2, 32))[1][1]
    assert torch.equal(orders.orders[0, 0], torch.arange(16))


@pytest.mark.parametrize("options", [{"graph_features": "in_proj"}, {"distance_scale": "batch"}], ids=str)
def test_orders_that_change_are_not_cached(options):
    model = spectral_vmamba.create_model("spectral_vmamba_lite", stem_weights="none", num_classes=2, **options)
    with pytest.raises(ValueError, match="orders that depend on its features alone"):
        frozen_tokenizer(model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "corner", "domain": "disk"}, "expected pooling max with the domain disk"),
        ({"pooling": "mean"}, "expected pooling to be one of max, corner; got 'mean'"),
        ({"graph_features": "rgb"}, "expected graph_features to be one of stem, in_proj; got 'rgb'"),
        ({"edges": "all"}, "expected edges to be one of either, mutual; got 'all'"),
        ({"sign_rule": "first", "solver": "native"}, "expected the solver auto or dense"),
    ],
    ids=str,
)
def test_bad_choices(options, message):
    with pytest.raises(ValueError, match=message):
        SpectralConfig(**options)


def test_published_networks_learn(crops):
    model = build("spectral_vmamba_nano_published", num_classes=4).train()
    model(example_images("spectral_vmamba_nano", 4)).logsumexp(1).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)
    assert Grid(8, 8).corners().shape == (16,)
