"""STS by the rules of the paper and of the authors' code, where they are not this package's."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.ranks import tied_ranks
from spectral_vmamba.ops.spectral import GraphRules, affinity, normalized_laplacian, spectral_ranks, spectral_traversal
from spectral_vmamba.ops.turns import turn
from tests.support.traversals import assert_permutations, smooth_maps, traverse

MUTUAL, UNBRIDGED, PIECEWISE = (
    GraphRules(edges="mutual"),
    GraphRules(components="unbridged"),
    GraphRules(components="piecewise"),
)
SELF, BATCH = GraphRules(self_neighbor=True), GraphRules(distance_scale="batch")
FIRST, NODES = GraphRules(sign_rule="first"), GraphRules(sign_rule="nodes")
PUBLISHED = GraphRules("either", "unbridged", True, "batch", "first")
EVERY = [MUTUAL, UNBRIDGED, PIECEWISE, SELF, BATCH, FIRST, NODES, PUBLISHED]
INVARIANT = [MUTUAL, UNBRIDGED, PIECEWISE, SELF]


def features(batch=2, tokens=20, channels=3, seed=0):
    return torch.randn(batch, tokens, channels, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def two_clusters(height=6, width=6):
    """Maps whose left and right halves are 1,000 apart, so that their tokens are never neighbors."""
    maps = smooth_maps(3, height, width).double()
    maps[..., : width // 2] += 1000
    return maps


def authors_affinity(features, k):
    """The authors' code (classification/models/csms6s.py) in loops: facts, not its lines."""
    batch, tokens, _ = features.shape
    distance = torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist")
    σ = distance.sum() / (batch * tokens * tokens)
    weights = torch.zeros_like(distance)
    for image in range(batch):
        for i in range(tokens):
            for j in sorted(range(tokens), key=lambda j: distance[image, i, j])[:k]:
                weights[image, i, j] = weights[image, j, i] = torch.exp(-(distance[image, i, j] ** 2) / (2 * σ**2))
    return weights


def test_the_published_rules_are_the_authors_code():
    x = features()
    # measured: 1.1e-16
    torch.testing.assert_close(affinity(x, 5, rules=PUBLISHED), authors_affinity(x, 5), rtol=0, atol=2e-15)


def test_mutual_edges_need_both():
    x = features()
    either, mutual = affinity(x, 4, rules=UNBRIDGED), affinity(x, 4, rules=GraphRules("mutual", "unbridged"))
    distance = torch.cdist(x, x).masked_fill(torch.eye(20, dtype=torch.bool), torch.inf)
    near = distance <= distance.kthvalue(4, -1, keepdim=True).values
    assert torch.equal(mutual > 0, near & near.mT)
    assert torch.equal(either > 0, near | near.mT)


def test_bridges_connect_and_other_rules_do_not():
    grid, maps = Grid(6, 6), two_clusters()
    x = grid.from_map(maps)
    pieces = {
        rules: [connected_components(graph.numpy() > 0, return_labels=False) for graph in affinity(x, 5, rules=rules)]
        for rules in (GraphRules(), UNBRIDGED, PIECEWISE)
    }
    assert pieces[GraphRules()] == [1, 1, 1]
    assert min(pieces[UNBRIDGED]) == 2
    assert pieces[PIECEWISE] == pieces[UNBRIDGED]


def test_pieces_are_visited_one_after_the_other_by_their_own_eigenvectors():
    maps = two_clusters()
    traversal = traverse(maps, rules=PIECEWISE)
    in_left_half = (torch.arange(36) % 6) < 3
    for order in traversal.orders.flatten(0, 1):
        halves = in_left_half[order]
        assert halves[:18].unique().numel() == halves[18:].unique().numel() == 1
    # The half with the lower ranks, alone, has the same ranks.
    left = Grid(6, 3)
    alone, _ = spectral_ranks(left.from_map(maps[..., :3] - 1000), left, 4, 5, "dense")
    within = tied_ranks(traversal.ranks[:, :, in_left_half].double())
    # σ differs: it is that of the whole image. The orders of a smooth map agree, up to the sign, along most of it.
    correlation = torch.corrcoef(torch.stack([alone[0, 0].double(), within[0, 0].double()]))[0, 1]
    assert correlation.abs() > 0.9


def test_connected_graphs_have_one_piece():
    maps = smooth_maps(4, 6, 6).double()
    graphs = affinity(Grid(6, 6).from_map(maps), 8, rules=UNBRIDGED)
    connected = [connected_components(graph.numpy() > 0, return_labels=False) == 1 for graph in graphs]
    assert any(connected)
    orders = [
        traverse(maps, neighbors=8, solver="dense", rules=rules).orders[connected]
        for rules in (GraphRules(), UNBRIDGED, PIECEWISE)
    ]
    assert torch.equal(orders[0], orders[1])
    assert torch.equal(orders[0], orders[2])


def test_the_first_entry_is_positive():
    x = features(tokens=30)
    ranks, _ = spectral_ranks(x, Grid(5, 6), 4, 5, rules=FIRST)
    laplacian, trivial = normalized_laplacian(affinity(x, 5))
    lifted = laplacian + 3 * trivial[:, :, None] * trivial[:, None, :]
    vectors = torch.linalg.eigh(lifted).eigenvectors.mT[:, :4]
    assert torch.equal(ranks, tied_ranks(vectors * vectors[..., :1].sign()))


def test_the_signs_of_nodes():
    x = features(tokens=30)
    ranks, _ = spectral_ranks(x, Grid(5, 6), 4, 5, rules=NODES)
    laplacian, trivial = normalized_laplacian(affinity(x, 5))
    lifted = laplacian + 3 * trivial[:, :, None] * trivial[:, None, :]
    vectors = torch.linalg.eigh(lifted).eigenvectors.mT[:, :4]
    signs = torch.stack([node.mean().sign() for image in vectors for node in image.T]).view(2, 1, 30)
    assert torch.equal(ranks, tied_ranks(vectors * signs))


@pytest.mark.parametrize("rules", EVERY, ids=str)
@pytest.mark.parametrize("shape", [(6, 6), (5, 9), (1, 7), (2, 2), (1, 2), (1, 1)], ids=str)
def test_orders_are_permutations(rules, shape):
    assert_permutations(traverse(smooth_maps(3, *shape), rules=rules).orders)
    assert_permutations(traverse(torch.zeros(2, 3, *shape), rules=rules).orders)  # all tokens equal


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(INVARIANT), st.integers(2, 7), st.integers(2, 7), st.integers(0, 1000), st.booleans())
def test_quarter_turns_visit_the_same_patches(rules, height, width, seed, clustered):
    maps = smooth_maps(2, height, width, seed=seed).double()
    if clustered:
        maps[..., : width // 2] += 1000
    upright = traverse(maps, rules=rules)
    for quarters in (1, 2, 3):
        turned = traverse(turn(maps, quarters), rules=rules)
        patches = torch.arange(height * width)
        moved = turned.grid.from_map(turn(upright.grid.to_map(patches[None, :, None]), quarters)).flatten()
        assert torch.equal(moved[turned.orders], upright.orders)


def test_the_sign_rule_of_the_paper_is_not_invariant():
    maps = smooth_maps(16, 6, 6).double()
    upright, turned = traverse(maps, rules=FIRST), traverse(turn(maps, 1), rules=FIRST)
    patches = torch.arange(36)
    moved = turned.grid.from_map(turn(upright.grid.to_map(patches[None, :, None]), 1)).flatten()
    same = (moved[turned.orders] == upright.orders).all(-1)
    assert 0.05 < same.double().mean() < 0.95


def test_only_the_scale_of_the_batch_depends_on_the_batch():
    x = features(batch=3, tokens=30)
    x[1] *= 100
    for rules in EVERY:
        together, _ = spectral_ranks(x, Grid(5, 6), 4, 5, rules=rules)
        alone = torch.cat([spectral_ranks(each[None], Grid(5, 6), 4, 5, rules=rules)[0] for each in x])
        assert torch.equal(together, alone) == (rules.distance_scale == "image")


@pytest.mark.parametrize(("name", "choices"), [("edges", "either, mutual"), ("sign_rule", "content, first, nodes")])
def test_unknown_rules_list_the_choices(name, choices):
    with pytest.raises(ValueError, match=f"expected {name} to be one of {choices}; got 'other'"):
        GraphRules(**{name: "other"})


def test_opcheck():
    arguments = (features(), 4, 5, "square", 0, None, 3, 5, "auto", "mutual", "piecewise", True, "batch", "first")
    torch.library.opcheck(torch.ops.spectral_vmamba.spectral_ranks, arguments)


def test_a_token_that_is_its_own_only_neighbor():
    traversal = spectral_traversal(features(), Grid(4, 5), neighbors=1, rules=SELF)
    assert_permutations(traversal.orders)
