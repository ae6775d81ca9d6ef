"""The affinity graph of the tokens, and its Laplacian."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from spectral_vmamba.ops.spectral import affinity, normalized_laplacian
from spectral_vmamba.ops.spectral.graph import WEAKEST_EDGE, spanning_edges, squared_distances


def components(weights: torch.Tensor) -> int:
    return connected_components(weights.numpy() > 0, directed=False, return_labels=False)


def plain_affinity(features: torch.Tensor, neighbors: int | None) -> torch.Tensor:
    """The definition in loops, for one image in general position (no ties, connected)."""
    tokens = len(features)
    distance = torch.stack([torch.stack([(a - b).norm() for b in features]) for a in features])
    σ = distance.sum() / (tokens * (tokens - 1))
    weights = torch.zeros(tokens, tokens, dtype=features.dtype)
    for i in range(tokens):
        others = sorted((j for j in range(tokens) if j != i), key=lambda j: distance[i, j])
        for j in others[:neighbors]:
            weights[i, j] = weights[j, i] = torch.exp(-(distance[i, j] ** 2) / (2 * σ**2))
    return weights


@pytest.mark.parametrize("neighbors", [1, 3, 5, None])
def test_affinity_is_its_definition(neighbors):
    features = torch.randn(3, 14, 4, dtype=torch.float64).cumsum(1)
    graph = affinity(features, neighbors)
    for weights, expected in zip(graph, (plain_affinity(f, neighbors) for f in features), strict=True):
        edges = expected > 0
        clamped = expected[edges].clamp_min(WEAKEST_EDGE)
        torch.testing.assert_close(weights[edges], clamped, rtol=0, atol=3e-15)  # measured: 3.3e-16
        if components(expected) == 1:
            assert torch.equal(weights > 0, edges)


def test_sigma_does_not_depend_on_the_rest_of_the_batch():
    features = torch.randn(4, 20, 3, dtype=torch.float64)
    features[1] *= 100
    batch = affinity(features, 5)
    for i in range(4):
        assert torch.equal(batch[i], affinity(features[i : i + 1], 5)[0])


def test_distances_without_cancellation_between_equal_tokens():
    features = 1e4 + torch.randn(1, 9, 8, dtype=torch.float64)
    features[0, 5] = features[0, 2]
    squared = squared_distances(features)[0]
    expected = torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist")[0] ** 2
    torch.testing.assert_close(squared, expected, rtol=0, atol=1e-13)  # measured: 1.1e-14
    assert torch.equal(squared, squared.T)
    assert not squared.diagonal().any()


@pytest.mark.parametrize("pieces", [2, 3, 50])
def test_the_spanning_tree_connects_disconnected_graphs(pieces):
    size = 8
    centers = 1000.0 * torch.randn(pieces, 1, 6, dtype=torch.float64)
    features = (centers + torch.randn(pieces, size, 6, dtype=torch.float64)).reshape(1, pieces * size, 6)
    graph = affinity(features, 3)[0]
    assert components(graph) == 1
    distance = torch.cdist(features[0], features[0])
    tree = minimum_spanning_tree(distance.numpy()).toarray()
    assert (graph.numpy()[tree > 0] > 0).all(), "every edge of the tree"
    within = torch.arange(pieces * size) // size
    assert int(((graph > 0) & (within[:, None] != within)).sum()) == 2 * (pieces - 1), (
        "and no other edge between components"
    )


def test_connected_graphs_get_no_tree_edges():
    features = torch.arange(12, dtype=torch.float64)[None, :, None] ** 1.1
    graph = affinity(features, 2)[0]
    assert components(graph) == 1
    assert torch.equal(graph > 0, plain_affinity(features[0], 2) > 0)


def test_one_odd_patch_stays_connected():
    """exp(−d²/2σ²) of the outlier underflows to zero in float64."""
    features = torch.randn(1, 196, 8, dtype=torch.float64) * 1e-3
    features[0, 77] += 1e3
    graph = affinity(features, 5)
    assert components(graph[0]) == 1
    assert float(graph[graph > 0].min()) >= WEAKEST_EDGE
    laplacian, trivial = normalized_laplacian(graph)
    assert laplacian.isfinite().all()
    assert trivial.isfinite().all()


def test_all_equally_near_tokens_are_neighbors():
    """Four corners of a square and its center: the two nearest corners of each corner are at the same distance."""
    features = torch.tensor([[[1.0, 1], [1, -1], [-1, -1], [-1, 1], [0, 0]]], dtype=torch.float64)
    edges = affinity(features, 2)[0] > 0
    corner_edges = edges[:4, :4]
    assert int(corner_edges.sum()) == 8
    assert edges[4, :4].all()


def test_more_neighbors_than_tokens_is_every_pair():
    features = torch.randn(2, 6, 3, dtype=torch.float64)
    assert torch.equal(affinity(features, 99), affinity(features, None))
    assert torch.equal(affinity(features, 5), affinity(features, None))


def test_identical_tokens_make_a_complete_graph_without_nan():
    graph = affinity(torch.ones(2, 5, 3, dtype=torch.float64), 2)
    assert torch.equal(graph, (1 - torch.eye(5, dtype=torch.float64)).expand(2, 5, 5))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**16), tokens=st.integers(2, 20), levels=st.integers(1, 6))
def test_renumbering_the_tokens_renumbers_the_graph(seed, tokens, levels):
    """Ties included: features on a coarse integer lattice have many equal distances."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randint(0, levels, (1, tokens, 2), generator=generator).double()
    names = torch.randperm(tokens, generator=generator)
    graph, renumbered = affinity(features, 2)[0], affinity(features[:, names], 2)[0]
    torch.testing.assert_close(renumbered, graph[names][:, names], rtol=0, atol=2e-15)  # measured: 1.1e-16


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**16), tokens=st.integers(2, 12))
def test_spanning_edges_are_a_minimum_spanning_tree(seed, tokens):
    distance = np.random.default_rng(seed).random((tokens, tokens))
    distance = distance + distance.T
    np.fill_diagonal(distance, 0)
    edges = spanning_edges(distance)
    assert edges.sum() == 2 * (tokens - 1)
    assert distance[edges].sum() / 2 == pytest.approx(
        minimum_spanning_tree(distance).sum(), rel=3e-15
    )  # measured: 3.3e-16


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**16), tokens=st.integers(2, 25))
def test_the_laplacian_is_positive_with_the_known_null_vector(seed, tokens):
    generator = torch.Generator().manual_seed(seed)
    laplacian, trivial = normalized_laplacian(affinity(torch.randn(1, tokens, 3, generator=generator).double(), 3))
    values = torch.linalg.eigvalsh(laplacian)[0]
    assert float(values[0]) > -1e-14  # measured over 400 graphs: -1.1e-15
    assert float(values[-1]) < 2 + 1e-14  # measured: 2
    assert float((laplacian @ trivial[..., None]).abs().max()) < 2e-15  # measured: 2.2e-16
    assert abs(float(trivial.norm()) - 1) < 2e-15  # measured: 2.2e-16
