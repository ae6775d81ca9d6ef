"""Spectral orders: permutations, equivariant, independent of the batch, correct for symmetric and flat images."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.metrics.traversal_gap import traversal_gap
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.spectral import (
    affinity,
    normalized_laplacian,
    pipeline,
    smallest_eigenpairs,
    spectral_traversal,
)
from spectral_vmamba.ops.turns import turn
from tests.support.traversals import (
    SHAPES,
    assert_permutations,
    assert_permutations_at_every_level,
    assert_turns_exactly,
    smooth_maps,
    traverse,
)


@pytest.mark.parametrize("domain", ["square", "disk"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_orders_are_permutations_at_every_level(shape, domain):
    assert_permutations_at_every_level(traverse(smooth_maps(2, *shape), domain))


@pytest.mark.parametrize("neighbors", [5, None])
@pytest.mark.parametrize("domain", ["square", "disk"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_orders_turn_with_the_features(shape, domain, neighbors):
    assert_turns_exactly(smooth_maps(3, *shape), domain=domain, neighbors=neighbors)


@pytest.mark.parametrize("solver", ["dense", "arpack", "subspace"])
def test_orders_follow_the_eigenvectors(solver):
    maps = smooth_maps(3, 10, 10)
    features = Grid(10, 10).from_map(maps).double()
    laplacian, trivial = normalized_laplacian(affinity(features, 5))
    vectors = smallest_eigenpairs(laplacian, trivial, 4, "dense").vectors
    orders = traverse(maps, solver=solver).orders
    for j in range(4):
        along = vectors[:, j].gather(-1, orders[:, 2 * j])
        along = along * torch.sign(along[:, -1:] - along[:, :1])
        assert (along.diff(dim=-1) >= 0).all()
        assert torch.equal(orders[:, 2 * j + 1], orders[:, 2 * j].flip(-1)), "without ties, descending is the reverse"


def test_orders_do_not_depend_on_the_rest_of_the_batch():
    maps = smooth_maps(8, 14, 14)
    batch = traverse(maps).orders
    for i in range(8):
        assert torch.equal(traverse(maps[i : i + 1]).orders[0], batch[i])


def test_surroundings_separate_tokens_of_flat_areas():
    """Half the tokens are identical; radius alone leaves four to eight of them equal."""
    maps = smooth_maps(4, 12, 12)
    maps[:, :, :, :7] = 1.0
    assert_turns_exactly(maps)
    content = traverse(maps).content
    assert (content.sort(-1).values == torch.arange(144)).all()


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**16), levels=st.integers(2, 6), neighbors=st.sampled_from([3, 5, None]))
def test_posterized_images_turn_exactly(seed, levels, neighbors):
    """Many equal tokens and close eigenvalues at once."""
    maps = (smooth_maps(1, 9, 9, channels=2, seed=seed) * levels / 2).round().double()
    before = traverse(maps, neighbors=neighbors)
    distinct = (before.content.sort(-1).values.diff() > 0).all()
    for quarters in (1, 2, 3):
        after = traverse(turn(maps, quarters), neighbors=neighbors)
        if distinct:
            assert traversal_gap(before, after, 90 * quarters).same_steps.all()


def checkerboard(height, width):
    board = (torch.arange(height)[:, None] + torch.arange(width)) % 2
    return board.expand(1, 3, height, width).float()


def noise(seed):
    return torch.randn(1, 3, 6, 6, generator=torch.Generator().manual_seed(seed))


SYMMETRIC = {
    "constant": torch.ones(1, 3, 8, 8),
    "zero": torch.zeros(1, 3, 8, 8),
    "checkerboard": checkerboard(8, 8),
    "odd checkerboard": checkerboard(7, 7),
    "stripes": (torch.arange(8) % 2).float().expand(1, 3, 8, 8),
    "rings": Grid(9, 9).squared_radii().float().view(1, 1, 9, 9).expand(1, 3, 9, 9).clone(),
    "half turn": noise(0) + turn(noise(0), 2),
    "quarter turn": sum(turn(noise(1), quarters) for quarters in range(4)),
    "one odd patch": torch.zeros(1, 3, 8, 8).index_put(
        (torch.tensor([0]), torch.tensor([0]), torch.tensor([2]), torch.tensor([5])), torch.tensor(1.0)
    ),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_orders_of_symmetric_images_are_unique_up_to_the_symmetry(name):
    """Every turn visits the same sequence of features; only tokens with equal features may swap."""
    maps = SYMMETRIC[name]
    before = traverse(maps)
    assert_permutations(before.orders)
    visited = Grid(*maps.shape[-2:]).from_map(maps)[0][before.orders[0]]
    for quarters in (1, 2, 3):
        turned_maps = turn(maps, quarters)
        after = traverse(turned_maps)
        visited_after = Grid(*turned_maps.shape[-2:]).from_map(turned_maps)[0][after.orders[0]]
        assert torch.equal(visited_after, visited)


@pytest.mark.parametrize("components", [2, 3, 50])
def test_orders_of_distant_clusters_turn_exactly(components):
    """The graph is disconnected before spanning edges are added."""
    generator = torch.Generator().manual_seed(components)
    cluster = torch.randint(0, components, (1, 20, 20), generator=generator)
    centers = 100 * torch.randn(components, 5, generator=generator)
    maps = (centers[cluster] + torch.randn(1, 20, 20, 5, generator=generator)).permute(0, 3, 1, 2)
    assert_turns_exactly(maps, neighbors=3)


def test_missing_eigenvectors_give_orders_by_content():
    traversal = traverse(smooth_maps(2, 1, 3), eigenvectors=6)
    assert traversal.orders.shape == (2, 12, 3)
    assert_permutations(traversal.orders)
    by_content = traversal.content.argsort(-1)
    assert torch.equal(traversal.orders[:, 4:], by_content[:, None].expand(2, 8, 3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eigenvectors": 0}, "at least one eigenvector"),
        ({"neighbors": 0}, "at least one neighbor"),
        ({"solver": "x"}, "unknown solver"),
    ],
)
def test_invalid_options(options, message):
    with pytest.raises(ValueError, match=message):
        traverse(smooth_maps(1, 4, 4), **options)


def test_features_that_do_not_fit_the_grid():
    with pytest.raises(ValueError, match="expected features of 16"):
        spectral_traversal(torch.randn(1, 15, 3), Grid(4, 4))


def test_features_that_are_not_finite_name_their_image():
    maps = smooth_maps(4, 4, 4)
    maps[2, 0, 1, 1] = torch.nan
    with pytest.raises(ValueError, match="image 2 of the batch"):
        traverse(maps)


def test_large_batches_are_processed_in_groups(monkeypatch):
    maps = smooth_maps(5, 6, 6)
    whole = traverse(maps, solver="dense").orders
    sizes = []
    solve = pipeline._canonical_eigenvectors
    monkeypatch.setattr(pipeline, "LARGEST_GROUP", 2 * 36**2)
    monkeypatch.setattr(pipeline, "_canonical_eigenvectors", lambda f, *rest: sizes.append(len(f)) or solve(f, *rest))
    assert torch.equal(traverse(maps, solver="dense").orders, whole)
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_opcheck(dtype):
    features = torch.randn(2, 20, 3, dtype=dtype)
    arguments = (features, 4, 5, "square", 0, None, 3, 5, "auto", "either", "bridged", False, "image", "content")
    torch.library.opcheck(torch.ops.spectral_vmamba.spectral_ranks, arguments)
