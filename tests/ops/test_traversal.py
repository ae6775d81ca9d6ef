"""Visiting orders: permutations, equivariant, each image's own, right where the image is odd."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.metrics.traversal_gap import traversal_gap
from spectral_vmamba.ops.frames import canonical_frame
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.ranks import hash_ranks, tied_ranks
from spectral_vmamba.ops.spectral import (
    affinity,
    normalized_laplacian,
    smallest_eigenpairs,
    spectral_traversal,
)
from spectral_vmamba.ops.traversal import Traversal, random_traversal, visiting_orders
from spectral_vmamba.ops.turns import turn

SHAPES = [(14, 14), (7, 7), (10, 10), (5, 9), (1, 12), (2, 2), (1, 2), (1, 1), (8, 6)]


def smooth_maps(batch, height, width, channels=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(batch, channels, 3, 3, generator=generator)
    maps = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear", align_corners=True)
    return maps + 0.05 * torch.randn(batch, channels, height, width, generator=generator)


def traverse(maps, domain="square", **options):
    grid = Grid(maps.shape[-2], maps.shape[-1], domain)
    return spectral_traversal(grid.from_map(maps), grid, **options)


def assert_permutations(orders):
    tokens = torch.arange(orders.shape[-1])
    assert torch.equal(orders.sort(-1).values, tokens.expand(orders.shape))


def assert_turns_exactly(maps, levels=3, **options):
    before = traverse(maps, **options)
    for quarters in (1, 2, 3):
        after, here = traverse(turn(maps, quarters), **options), before
        for _ in range(levels):
            gap = traversal_gap(here, after, 90 * quarters)
            assert gap.same_steps.all()
            strength = maps.new_tensor(1.0) * hash_ranks(here.content)
            strength_after = maps.new_tensor(1.0) * hash_ranks(after.content)
            here, after = here.pool(strength), after.pool(strength_after)


def assert_permutations_at_every_level(traversal) -> None:
    for _ in range(4):
        assert traversal.orders.shape[1] == 8
        assert_permutations(traversal.orders)
        steps = torch.arange(traversal.orders.shape[-1])
        assert torch.equal(traversal.inverses.gather(-1, traversal.orders), steps.expand(traversal.orders.shape))
        traversal = traversal.pool(torch.rand(traversal.content.shape))


@pytest.mark.parametrize("domain", ["square", "disk"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_orders_are_permutations_with_inverses_at_every_level(shape, domain):
    traversal = traverse(smooth_maps(2, *shape), domain)
    assert_permutations_at_every_level(traversal)


@pytest.mark.parametrize("neighbors", [5, None])
@pytest.mark.parametrize("domain", ["square", "disk"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_orders_turn_with_the_features(shape, domain, neighbors):
    assert_turns_exactly(smooth_maps(3, *shape), domain=domain, neighbors=neighbors)


@pytest.mark.parametrize("solver", ["dense", "arpack", "subspace"])
def test_orders_follow_the_eigenvectors(solver):
    maps = smooth_maps(3, 10, 10)
    grid = Grid(10, 10)
    features = grid.from_map(maps).double()
    laplacian, trivial = normalized_laplacian(affinity(features, 5))
    vectors = smallest_eigenpairs(laplacian, trivial, 4, "dense").vectors
    orders = traverse(maps, solver=solver).orders
    for j in range(4):
        along = vectors[:, j].gather(-1, orders[:, 2 * j])
        along = along * torch.sign(along[:, -1:] - along[:, :1])
        assert (along.diff(dim=-1) > -1e-9).all()
        assert torch.equal(orders[:, 2 * j + 1], orders[:, 2 * j].flip(-1)), (
            "no ties here: descending is ascending reversed"
        )


def test_an_images_orders_are_its_own():
    maps = smooth_maps(8, 14, 14)
    together = traverse(maps).orders
    for i in range(8):
        assert torch.equal(traverse(maps[i : i + 1]).orders[0], together[i])


def test_flat_areas_are_told_apart_by_what_surrounds_them():
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


def test_a_frame_turns_the_orders_themselves():
    maps = smooth_maps(4, 6, 9)
    upright, frame = canonical_frame(maps)
    here, there = traverse(maps), traverse(upright).undo_frame(frame)
    assert there.grid == here.grid
    for field in ("ranks", "content", "orders"):
        assert torch.equal(getattr(there, field), getattr(here, field))


def checkerboard(height, width):
    board = (torch.arange(height)[:, None] + torch.arange(width)) % 2
    return board.expand(1, 3, height, width).float()


SYMMETRIC = {
    "constant": torch.ones(1, 3, 8, 8),
    "zero": torch.zeros(1, 3, 8, 8),
    "checkerboard": checkerboard(8, 8),
    "odd checkerboard": checkerboard(7, 7),
    "stripes": (torch.arange(8) % 2).float().expand(1, 3, 8, 8),
    "rings": Grid(9, 9).squared_radii().float().view(1, 1, 9, 9).expand(1, 3, 9, 9).clone(),
    "half turn": (lambda m: m + turn(m, 2))(torch.randn(1, 3, 6, 6, generator=torch.Generator().manual_seed(0))),
    "quarter turn": sum(turn(torch.randn(1, 3, 6, 6, generator=torch.Generator().manual_seed(1)), q) for q in range(4)),
    "one odd patch": torch.zeros(1, 3, 8, 8).index_put(
        (torch.tensor([0]), torch.tensor([0]), torch.tensor([2]), torch.tensor([5])), torch.tensor(1.0)
    ),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_images_have_orders_unique_up_to_their_symmetry(name):
    """The features met along each order are the same after every turn, though twins may trade names."""
    maps = SYMMETRIC[name]
    before = traverse(maps)
    assert_permutations(before.orders)
    seen = Grid(*maps.shape[-2:]).from_map(maps)[0][before.orders[0]]
    for quarters in (1, 2, 3):
        turned_maps = turn(maps, quarters)
        after = traverse(turned_maps)
        seen_after = Grid(*turned_maps.shape[-2:]).from_map(turned_maps)[0][after.orders[0]]
        torch.testing.assert_close(seen_after, seen)


@pytest.mark.parametrize("pieces", [2, 3, 50])
def test_features_in_clusters_far_apart(pieces):
    """A graph in pieces before it is joined; the orders still turn exactly."""
    generator = torch.Generator().manual_seed(pieces)
    cluster = torch.randint(0, pieces, (1, 20, 20), generator=generator)
    centers = 100 * torch.randn(pieces, 5, generator=generator)
    maps = (centers[cluster] + torch.randn(1, 20, 20, 5, generator=generator)).permute(0, 3, 1, 2)
    assert_turns_exactly(maps, neighbors=3)


def test_more_eigenvectors_than_there_are():
    traversal = traverse(smooth_maps(2, 1, 3), eigenvectors=6)
    assert traversal.orders.shape == (2, 12, 3)
    assert_permutations(traversal.orders)
    by_content = traversal.content.argsort(-1)
    assert torch.equal(traversal.orders[:, 4:], by_content[:, None].expand(2, 8, 3)), "missing ones go by content"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eigenvectors": 0}, "at least one eigenvector"),
        ({"neighbors": 0}, "at least one neighbor"),
        ({"solver": "x"}, "unknown solver"),
    ],
)
def test_impossible_options(options, message):
    with pytest.raises(ValueError, match=message):
        traverse(smooth_maps(1, 4, 4), **options)


def test_features_of_another_grid():
    with pytest.raises(ValueError, match="expected features of 16"):
        spectral_traversal(torch.randn(1, 15, 3), Grid(4, 4))


def test_large_batches_are_handled_in_groups(monkeypatch):
    maps = smooth_maps(5, 6, 6)
    whole = traverse(maps).orders
    monkeypatch.setattr("spectral_vmamba.ops.spectral.pipeline.LARGEST_GROUP", 2 * 36**2)
    assert torch.equal(traverse(maps).orders, whole)


def test_broken_features_name_their_image():
    maps = smooth_maps(4, 4, 4)
    maps[2, 0, 1, 1] = torch.nan
    with pytest.raises(ValueError, match="image 2 of the batch"):
        traverse(maps)


def test_flipping_an_eigenvector_swaps_its_two_paths_ties_included():
    ranks = torch.tensor([[[0, 1, 1, 2, 0]]])
    content, radii = torch.tensor([[4, 3, 2, 1, 0]]), torch.arange(5)
    there = visiting_orders(ranks, content, radii)
    back = visiting_orders(-ranks, content, radii)
    assert torch.equal(there, back.flip(1))


def test_ties_go_by_content_then_radius_never_by_place():
    ranks = torch.zeros(1, 1, 4, dtype=torch.int64)
    radii = torch.tensor([3, 1, 2, 0])
    assert visiting_orders(ranks, torch.tensor([[1, 0, 1, 1]]), radii)[0, 0].tolist() == [1, 3, 2, 0]


def test_pooling_hands_on_the_strongest_tokens_rank():
    grid = Grid(2, 2)
    ranks, content = torch.tensor([[[3, 0, 2, 1]]]), torch.tensor([[0, 1, 2, 3]])
    traversal = Traversal.from_ranks(grid, ranks, content)
    assert traversal.pool(torch.tensor([[0.1, 0.9, 0.2, 0.3]])).ranks.tolist() == [[[0]]]
    assert traversal.pool(torch.tensor([[0.9, 0.9, 0.1, 0.3]])).ranks.tolist() == [[[0]]], "of equals, by content"


def test_random_orders_are_fixed_by_their_seed_and_blind_to_the_image():
    grid = Grid(5, 9)
    one, same, other = (random_traversal(grid, 3, 4, seed, torch.device("cpu")) for seed in (0, 0, 1))
    assert_permutations(one.orders)
    assert torch.equal(one.orders, same.orders)
    assert not torch.equal(one.orders, other.orders)
    assert torch.equal(one.orders[0], one.orders[2])


@pytest.mark.parametrize("domain", ["square", "disk"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_random_orders_are_permutations_with_inverses_at_every_level(shape, domain):
    traversal = random_traversal(Grid(*shape, domain), 2, 4, 1, torch.device("cpu"))
    assert_permutations_at_every_level(traversal)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12))
def test_tied_ranks(values):
    levels = sorted(set(values))
    assert tied_ranks(torch.tensor(values)).tolist() == [levels.index(value) for value in values]


def test_scrambled_sums_tell_multisets_apart():
    ranks = hash_ranks(torch.arange(3000))
    assert ranks.min() >= 0
    assert ranks.max() < 2**20
    i, j = torch.triu_indices(60, 60)
    sums = ranks[i] + ranks[j]
    assert len(sums.unique()) > 0.99 * len(sums), "plain ranks would make 119 different sums of 1830 pairs"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_op_check(dtype):
    grid = Grid(4, 5)
    features = torch.randn(2, 20, 3, dtype=dtype)
    arguments = (features, 4, 5, "square", 0, None, 3, 5, "auto")
    torch.library.opcheck(torch.ops.spectral_vmamba.spectral_ranks, arguments)
