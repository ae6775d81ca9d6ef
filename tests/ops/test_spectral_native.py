"""Native graphs, eigenvectors and signs against those in torch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.data import photograph_crops
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.spectral import (
    affinity,
    canonical,
    neighbor_graphs,
    normalized_laplacian,
    smallest_eigenpairs,
    sparse_eigenpairs,
    spectral_native,
    spectral_ranks,
)
from spectral_vmamba.ops.spectral.canonical import signs_by_probes
from spectral_vmamba.ops.spectral.spectral_native import native_signs
from spectral_vmamba.utils.peak_memory import measure_growth, release_free_memory
from tests.support.eigenpairs import TOKENS, random_eigenpairs
from tests.support.native import needs_native

pytestmark = needs_native


def patches(side, count=3):
    """Photographs cut into side × side patches, as features."""
    crops = photograph_crops(count, 4 * side, seed=0).double()
    cut = crops.unfold(2, 4, 4).unfold(3, 4, 4)
    return cut.permute(0, 2, 3, 1, 4, 5).reshape(count, side * side, -1)


def blank_background(side=10):
    features = patches(side)
    features[:, : side * side // 2] = 1.0
    return features


def clusters():
    """Three distant clusters: spanning edges connect the components of their nearest-neighbor graph."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.tensor([0.0, 50.0, 120.0]).repeat_interleave(20)
    return torch.randn(2, 60, 4, generator=generator, dtype=torch.float64) + centers[None, :, None]


def lattice():
    """Many exact ties."""
    y, x = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    return torch.stack([y, x], -1).reshape(1, 64, 2).double()


FEATURES = {
    "photographs": lambda: patches(14),
    "odd number": lambda: patches(9),
    "blank background": blank_background,
    "clusters": clusters,
    "lattice": lattice,
    "one channel": lambda: torch.randn(2, 50, 1, dtype=torch.float64),
}


@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("neighbors", [1, 5, 12])
def test_graphs_equal_the_dense_ones(kind, neighbors):
    features = FEATURES[kind]()
    graphs = neighbor_graphs(features, neighbors)
    expected = affinity(features, neighbors)
    for image, weights in enumerate(expected):
        native = torch.from_numpy(graphs.affinity(image).toarray())
        assert torch.equal(native != 0, weights != 0)
        torch.testing.assert_close(native, weights, rtol=2e-13, atol=0)  # measured: 2.0e-14


def large_features(kind, tokens):
    features = torch.randn(1, tokens, 6, generator=torch.Generator().manual_seed(tokens), dtype=torch.float64)
    if kind == "two parts":
        features[:, : tokens // 3] += 100
    if kind == "equal tokens":
        features[:, ::3] = 0.5
    if kind == "many ties":
        features = (2 * features).round()
    return features + 1e6 if kind == "far from zero" else features


@pytest.mark.parametrize("tokens", [511, 513, 1030])
@pytest.mark.parametrize("kind", ["connected", "two parts", "equal tokens", "many ties", "far from zero"])
def test_graphs_of_large_images_equal_the_dense_ones(kind, tokens):
    """Large images are compared section by section."""
    features = large_features(kind, tokens)
    for neighbors in (1, 5, 12):
        native = torch.from_numpy(neighbor_graphs(features, neighbors).affinity(0).toarray())
        weights = affinity(features, neighbors)[0]
        assert torch.equal(native != 0, weights != 0)
        # Far from zero, features themselves are rounded by 1e6 · ε = 1.2e-10, and the reference centers them by a mean.
        torch.testing.assert_close(native, weights, rtol=1e-9 if kind == "far from zero" else 2e-13, atol=0)


def test_an_outlier_does_not_hide_ties():
    """Next to a distant token, ‖a‖² + ‖b‖² − 2 a·b rounds by more than the difference at which distances count as tied.
    The expected distances are integers; an isometry hides them from the kernel, for which they would be exact too."""
    y, x = torch.meshgrid(torch.arange(64), torch.arange(64), indexing="ij")
    tokens = torch.cat([torch.stack([y, x], -1).reshape(-1, 2), torch.tensor([[500_000, 500_000]])])
    squared = sum((tokens[:, None, axis] - tokens[None, :, axis]).square() for axis in range(2))
    squared.fill_diagonal_(torch.iinfo(squared.dtype).max)
    near = squared <= squared.kthvalue(4, dim=-1, keepdim=True).values
    isometry = torch.linalg.qr(torch.randn(48, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    native = neighbor_graphs((tokens.double() @ isometry.T)[None], 4).affinity(0).toarray()
    assert torch.equal(torch.from_numpy(native != 0), near | near.mT)


def test_one_distant_token_leaves_the_graph_of_the_others():
    """Tokens are centered by their mean: by the middle of their range, all but one would be far from zero, and their
    distances would count as rounding."""
    features = torch.randn(1, 1024, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    features[0, 512] += 1e6
    native = torch.from_numpy(neighbor_graphs(features, 5).affinity(0).toarray())
    weights = affinity(features, 5)[0]
    assert torch.equal(native != 0, weights != 0)
    torch.testing.assert_close(native, weights, rtol=1e-12, atol=0)


@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
def test_memory_of_a_gradient_is_that_of_its_edges(descending):
    """Where each token is nearer than all before, every pair is a candidate for a while. Measured: 5 MB; 1,108 MB if
    all candidates are kept."""
    place = torch.arange(8192, dtype=torch.float64)
    features = (place.flip(0) if descending else place)[None, :, None] * torch.ones(4, dtype=torch.float64)
    neighbor_graphs(features[:, :1024], 5)
    release_free_memory()
    assert measure_growth(lambda: neighbor_graphs(features, 5)) < 50e6


def test_equal_tokens_are_one_node():
    graphs = neighbor_graphs(blank_background(10), 5)
    assert graphs.nodes.tolist() == [22, 51, 51]
    assert torch.equal(graphs.sizes.sum(1), torch.full((3,), 100, dtype=graphs.sizes.sum(1).dtype))


def projector(vectors):
    return vectors.mT @ vectors


@pytest.mark.parametrize("kind", [kind for kind in FEATURES if kind != "lattice"])
def test_eigenpairs_equal_the_dense_ones(kind):
    features = FEATURES[kind]()
    pairs, trivial = sparse_eigenpairs(neighbor_graphs(features, 5), 6)
    laplacian, null = normalized_laplacian(affinity(features, 5))
    exact = smallest_eigenpairs(laplacian, null, 6, "dense")
    torch.testing.assert_close(trivial, null, rtol=0, atol=8e-16)  # measured: 8.3e-17
    torch.testing.assert_close(pairs.values, exact.values, rtol=0, atol=4e-14)  # measured: 4.9e-15
    # The error of a vector is its residual over its gap; in photographs gaps are 1e-4 and more. Measured: 6.4e-13.
    torch.testing.assert_close(projector(pairs.vectors[:, :4]), projector(exact.vectors[:, :4]), rtol=0, atol=6e-12)
    residuals = (laplacian @ pairs.vectors.mT - pairs.vectors.mT * pairs.values[:, None]).norm(dim=1)
    assert float(residuals[:, :4].max()) <= 6e-12  # measured: 6.3e-13
    torch.testing.assert_close(pairs.residuals, residuals, rtol=0, atol=7e-15)  # measured: 7.5e-16


def test_whole_eigenspaces_of_repeated_eigenvalues():
    """The square lattice has λ₂ = λ₃ and more repeated eigenvalues: only eigenspaces are comparable, not vectors."""
    pairs, _ = sparse_eigenpairs(neighbor_graphs(lattice(), 4), 8, wanted=8)
    laplacian, null = normalized_laplacian(affinity(lattice(), 4))
    exact = smallest_eigenpairs(laplacian, null, 63, "dense")
    torch.testing.assert_close(pairs.values, exact.values[:, :8], rtol=0, atol=7e-15)  # measured: 7.8e-16
    values = exact.values[0]
    ends = [i + 1 for i in range(8) if values[i + 1] - values[i] > 1e-6]
    assert ends
    assert len(ends) < 8
    for end in ends:
        a, b = projector(pairs.vectors[:, :end]), projector(exact.vectors[:, :end])
        torch.testing.assert_close(a, b, rtol=0, atol=2e-14)  # measured: 2.5e-15


@pytest.mark.parametrize("tokens", [1023, 1024, 1090])
@pytest.mark.parametrize("kind", ["connected", "two parts", "equal tokens"])
def test_threads_that_share_a_large_image_find_the_same_graph(monkeypatch, tokens, kind):
    features = torch.cat([large_features(kind, tokens), large_features(kind, tokens).flip(1)])
    monkeypatch.setattr(spectral_native.torch, "get_num_threads", lambda: 1)
    expected = neighbor_graphs(features, 5)
    for threads in (3, 7):
        monkeypatch.setattr(spectral_native.torch, "get_num_threads", lambda threads=threads: threads)
        for part, other in zip(neighbor_graphs(features, 5), expected, strict=True):
            assert torch.equal(part, other)


def test_results_depend_neither_on_the_rest_of_the_batch_nor_on_threads():
    features = patches(14, 4)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        pairs, trivial = sparse_eigenpairs(neighbor_graphs(features, 5), 6)
        torch.set_num_threads(3)
        singles = [sparse_eigenpairs(neighbor_graphs(features[i : i + 1], 5), 6) for i in range(4)]
    finally:
        torch.set_num_threads(before)
    for i, (own, null) in enumerate(singles):
        assert torch.equal(own.vectors[0], pairs.vectors[i])
        assert torch.equal(own.values[0], pairs.values[i])
        assert torch.equal(null[0], trivial[i])


@pytest.mark.parametrize("kind", FEATURES)
def test_ranks_equal_those_of_the_dense_solver(kind):
    features = FEATURES[kind]()
    side = int(features.shape[1] ** 0.5)
    height, width = (side, side) if side**2 == features.shape[1] else (1, features.shape[1])
    grid = Grid(height, width)
    native, dense = (spectral_ranks(features, grid, 4, 5, solver) for solver in ("native", "dense"))
    assert torch.equal(native[0], dense[0])
    assert torch.equal(native[1], dense[1])


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**16), tokens=st.integers(33, 120), neighbors=st.integers(1, 8), copies=st.booleans())
def test_renumbering_the_tokens_renumbers_graph_and_eigenvectors(seed, tokens, neighbors, copies):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(1, tokens, 5, generator=generator, dtype=torch.float64).cumsum(1)
    if copies:
        features[:, 20:30] = features[:, :1]
    names = torch.randperm(tokens, generator=generator)
    graphs, renumbered = neighbor_graphs(features, neighbors), neighbor_graphs(features[:, names], neighbors)
    difference = graphs.affinity(0)[names.numpy()][:, names.numpy()] - renumbered.affinity(0)
    assert abs(difference).max() < 3e-15  # measured over 400 seeds: 3.3e-16
    (a, _), (b, _) = sparse_eigenpairs(graphs, 4, 2), sparse_eigenpairs(renumbered, 4, 2)
    assert torch.equal(a.residuals.isinf(), b.residuals.isinf())
    if a.residuals.isfinite().all():
        torch.testing.assert_close(a.values, b.values, rtol=0, atol=6e-15)  # measured over 400 seeds: 6.7e-16


def test_more_components_than_the_block_has_vectors():
    """Thirty distant clusters, connected by the weakest edges: 29 eigenvalues below CLUSTER."""
    generator = torch.Generator().manual_seed(0)
    centers = 1e4 * torch.rand(1, 30, 6, generator=generator, dtype=torch.float64).repeat_interleave(8, 1)
    features = centers + 1e-3 * torch.randn(1, 240, 6, generator=generator, dtype=torch.float64)
    native, dense = (spectral_ranks(features, Grid(1, 240), 4, 5, solver)[0] for solver in ("native", "dense"))
    assert torch.equal(native, dense)


def test_features_of_few_bits_are_distinguished():
    """Small integers differ only in the highest bits of a double."""
    features = torch.randint(0, 3, (1, 2000, 4), generator=torch.Generator().manual_seed(0)).double()
    assert int(neighbor_graphs(features, 5).nodes[0]) == len(features[0].unique(dim=0))


def test_the_dense_solver_takes_over_flat_images():
    ranks, _ = spectral_ranks(torch.ones(2, 64, 3), Grid(8, 8), 4, 5)
    assert ranks.shape == (2, 4, 64)
    pairs, _ = sparse_eigenpairs(neighbor_graphs(torch.ones(1, 64, 3), 5), 6)
    assert pairs.residuals.isinf().all()


def test_neighbors_out_of_range():
    with pytest.raises(ValueError, match="expected 1 to 48 neighbors"):
        neighbor_graphs(torch.randn(1, 50, 2), 49)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**16),
    kind=st.sampled_from(["varied", "nearly flat", "flat"]),
    clear=st.sampled_from([canonical.CLEAR, 2.0]),
)
def test_signs_equal_those_of_the_probes(seed, kind, clear):
    """In flat images all probes are zero. With a threshold of 2.0 none is clear, and the first faint one counts."""
    pairs = [random_eigenpairs(seed + i, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) for i in range(3)]
    _, vectors, trivial, content = (torch.stack(part) for part in zip(*pairs, strict=True))
    radii = torch.arange(TOKENS) % 5
    if kind == "nearly flat":
        content, radii = 1e-5 * content, torch.ones_like(radii)
        content[:, 3] = 1.0
    if kind == "flat":
        content, radii = torch.ones_like(content), torch.ones_like(radii)
    order = torch.rand(content.shape, generator=torch.Generator().manual_seed(seed)).argsort(-1)
    limits = (canonical.SIGNIFICANT, clear, canonical._HIGHEST_DEGREE)
    for chosen in (vectors[:, :4], vectors[..., :4, :].flip(-2)):
        found = native_signs(chosen, trivial, content, radii, order, *limits)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(canonical, "CLEAR", clear)
            expected = signs_by_probes(chosen, canonical._probes(trivial, content, radii), order)
        assert torch.equal(found, expected)
