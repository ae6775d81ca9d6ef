"""Each solver against the dense float64 one: values, residuals, and the right invariant subspaces."""

from itertools import pairwise

import pytest
import torch

from spectral_vmamba.ops.spectral import (
    SOLVERS,
    ConvergenceError,
    affinity,
    arpack,
    normalized_laplacian,
    smallest_eigenpairs,
    solvers,
    subspace,
)
from tests.support.native import needs_native

ALL = ["dense", "arpack", "subspace", pytest.param("native", marks=needs_native)]


def test_every_solver_is_tested_here():
    assert {"auto", "native", *ALL[:3]} == set(SOLVERS)


def laplacian_of(features, neighbors=5):
    return normalized_laplacian(affinity(features.double(), neighbors))


def disconnected(pieces, size, identical=False):
    """A Laplacian whose graph really is in pieces: nothing joins them here."""
    blocks = [torch.rand(size, size, dtype=torch.float64) for _ in range(1 if identical else pieces)]
    weights = torch.block_diag(*(blocks * (pieces if identical else 1)))
    weights = (weights + weights.T).fill_diagonal_(0)
    return normalized_laplacian(weights[None])


def assert_same_subspaces(pairs, laplacian, trivial, count, tolerance=1e-7):
    """Values equal the reference's, and each eigenspace that lies wholly inside the count is the reference's."""
    reference = smallest_eigenpairs(laplacian, trivial, laplacian.shape[-1] - 1, "dense")
    torch.testing.assert_close(pairs.values, reference.values[:, :count], rtol=0, atol=1e-9)
    for image in range(len(laplacian)):
        values = reference.values[image]
        ends = [0, *(1 + (values.diff() > 1e-7).nonzero().flatten()).tolist(), len(values)]
        for start, stop in pairwise(ends):
            if stop <= count:
                a, b = pairs.vectors[image, start:stop], reference.vectors[image, start:stop]
                overlap = torch.linalg.svdvals(a @ b.T)
                assert float((1 - overlap).abs().max()) < tolerance


@pytest.mark.parametrize("solver", ALL)
@pytest.mark.parametrize(("tokens", "neighbors"), [(30, 5), (64, 5), (196, 5), (196, None), (784, 5)])
def test_solvers_agree_with_dense(solver, tokens, neighbors):
    laplacian, trivial = laplacian_of(torch.randn(2, tokens, 6).cumsum(1), neighbors)
    pairs = smallest_eigenpairs(laplacian, trivial, 6, solver)
    assert float(pairs.residuals.max()) <= 1e-9
    identity = torch.eye(6, dtype=torch.float64).expand(2, 6, 6)
    torch.testing.assert_close(pairs.vectors @ pairs.vectors.mT, identity, rtol=0, atol=1e-9)
    assert float((pairs.vectors @ trivial[..., None]).abs().max()) < 1e-9
    assert_same_subspaces(pairs, laplacian, trivial, 6)


@pytest.mark.parametrize("solver", ALL)
@pytest.mark.parametrize(("pieces", "identical"), [(2, False), (3, False), (3, True), (5, True)])
def test_null_vectors_of_disconnected_graphs_are_all_found(solver, pieces, identical):
    laplacian, trivial = disconnected(pieces, 20, identical)
    pairs = smallest_eigenpairs(laplacian, trivial, 8, solver)
    assert int((pairs.values.abs() < 1e-9).sum()) == pieces - 1
    assert_same_subspaces(pairs, laplacian, trivial, 8)


@pytest.mark.parametrize("solver", ALL)
def test_fifty_pieces(solver):
    laplacian, trivial = disconnected(50, 5)
    pairs = smallest_eigenpairs(laplacian, trivial, 6, solver)
    assert float(pairs.values.abs().max()) < 1e-9
    assert float((laplacian @ pairs.vectors.mT).abs().max()) < 1e-9


@pytest.mark.parametrize("solver", ALL)
def test_repeated_eigenvalues_of_a_ring(solver):
    ring = torch.eye(40, dtype=torch.float64).roll(1, 0)
    laplacian, trivial = normalized_laplacian((ring + ring.T)[None])
    pairs = smallest_eigenpairs(laplacian, trivial, 6, solver)
    angles = torch.tensor([1, 1, 2, 2, 3, 3], dtype=torch.float64) * 2 * torch.pi / 40
    torch.testing.assert_close(pairs.values[0], 1 - angles.cos(), rtol=0, atol=1e-9)
    assert_same_subspaces(pairs, laplacian, trivial, 6)


@pytest.mark.parametrize("solver", ALL)
@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 7])
def test_tiny_graphs_and_every_eigenvector(solver, tokens):
    laplacian, trivial = laplacian_of(torch.randn(2, tokens, 3))
    pairs = smallest_eigenpairs(laplacian, trivial, tokens - 1, solver)
    assert pairs.vectors.shape == (2, tokens - 1, tokens)
    if tokens > 1:
        assert_same_subspaces(pairs, laplacian, trivial, tokens - 1)


@pytest.mark.parametrize("solver", ALL)
def test_empty_batch(solver):
    pairs = smallest_eigenpairs(torch.zeros(0, 9, 9).double(), torch.zeros(0, 9).double(), 3, solver)
    assert pairs.vectors.shape == (0, 3, 9)


def test_asking_for_too_many_is_an_error():
    laplacian, trivial = laplacian_of(torch.randn(1, 5, 3))
    with pytest.raises(ValueError, match="has 4 non-trivial eigenvectors, asked for 5"):
        smallest_eigenpairs(laplacian, trivial, 5)
    with pytest.raises(ValueError, match="unknown solver"):
        smallest_eigenpairs(laplacian, trivial, 2, "magic")


def test_a_pair_that_did_not_converge_is_an_error_with_what_there_is(monkeypatch):
    monkeypatch.setattr(subspace, "LARGEST_ROUNDS", 2)
    laplacian, trivial = laplacian_of(torch.randn(3, 400, 6).cumsum(1))
    with pytest.raises(ConvergenceError, match="did not converge for image") as error:
        smallest_eigenpairs(laplacian, trivial, 5, "subspace")
    assert error.value.eigenpairs.vectors.shape == (3, 5, 400)


class _AgreesWithEverything:
    def __ne__(self, other):
        return False


def test_lanczos_alone_misses_repeated_values_and_the_inertia_count_notices(monkeypatch):
    """Five equal pieces: somewhere among the seeds Lanczos returns converged pairs that are not the smallest."""
    missed = 0
    for seed in range(12):
        torch.manual_seed(seed)
        laplacian, trivial = disconnected(5, 20, identical=True)
        exact = smallest_eigenpairs(laplacian, trivial, 8, "dense").values
        with monkeypatch.context() as patch:
            patch.setattr(arpack, "_eigenvalues_below", lambda sparse, bound: _AgreesWithEverything())
            unguarded = smallest_eigenpairs(laplacian, trivial, 8, "arpack")
        assert float(unguarded.residuals.max()) < 1e-9
        missed += bool((unguarded.values - exact).abs().max() > 1e-6)
        guarded = smallest_eigenpairs(laplacian, trivial, 8, "arpack").values
        torch.testing.assert_close(guarded, exact, rtol=0, atol=1e-9)
    assert missed


def test_auto_goes_back_to_dense(monkeypatch):
    monkeypatch.setattr(solvers, "choose_methods", lambda *_: ("subspace", "dense"))
    monkeypatch.setattr(subspace, "LARGEST_ROUNDS", 2)
    laplacian, trivial = laplacian_of(torch.randn(1, 300, 6).cumsum(1))
    pairs = smallest_eigenpairs(laplacian, trivial, 5, "auto")
    assert_same_subspaces(pairs, laplacian, trivial, 5)


def smooth_field(side, channels=8):
    """Features that vary smoothly over a grid, as those of photographs do."""
    coarse = torch.randn(1, channels, side // 8, side // 8)
    field = torch.nn.functional.interpolate(coarse, (side, side), mode="bicubic")
    return (field + 0.1 * torch.randn_like(field)).flatten(2).mT


@pytest.mark.parametrize("side", [28, pytest.param(56, marks=pytest.mark.slow)])
@pytest.mark.parametrize("solver", ["arpack", "subspace"])
def test_orders_are_those_of_the_dense_solver(solver, side):
    laplacian, trivial = laplacian_of(smooth_field(side))
    pairs = smallest_eigenpairs(laplacian, trivial, 4, solver)
    reference = smallest_eigenpairs(laplacian, trivial, 4, "dense")
    for a, b in zip(pairs.vectors[0], reference.vectors[0], strict=True):
        order = b.argsort()
        clearly_apart = b[order].diff() > 1e-6
        same_way = (a * torch.sign(a @ b))[order].diff() > 0
        assert clearly_apart.double().mean() > 0.5
        assert same_way[clearly_apart].all()
