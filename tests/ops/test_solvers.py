"""The choice of solvers, and each solver against the dense one: values, residuals, invariant subspaces."""

from itertools import pairwise

import pytest
import torch

from spectral_vmamba.ops.native import Native
from spectral_vmamba.ops.spectral import (
    SOLVERS,
    ConvergenceError,
    normalized_laplacian,
    smallest_eigenpairs,
    solvers,
    subspace,
)
from spectral_vmamba.ops.spectral.dense import dense_eigenvectors
from spectral_vmamba.ops.spectral.solvers import choose_methods, run_methods
from spectral_vmamba.ops.spectral.spectral_native import largest_native_count
from tests.support.laplacians import disconnected_laplacian, feature_laplacian
from tests.support.native import needs_native

ALL = ["dense", "arpack", "subspace", pytest.param("native", marks=needs_native)]


def test_every_solver_is_tested_here():
    assert {"auto", "native", *ALL[:3]} == set(SOLVERS)


CPU, GPU = torch.device("cpu"), torch.device("cuda")
# tokens, neighbors, count, device, solver, native library installed → methods
CHOICES = [
    # graphs that are built from features
    (196, 5, 4, CPU, "auto", True, ("sparse_native", "dense")),
    (257, 5, 4, CPU, "auto", True, ("sparse_native", "arpack", "dense")),
    (257, 5, 4, CPU, "native", True, ("sparse_native", "arpack", "dense")),
    (196, 48, 4, CPU, "auto", True, ("sparse_native", "dense")),
    (196, 49, 4, CPU, "auto", True, ("dense",)),
    (196, 49, 4, CPU, "native", True, ("native", "dense")),
    (34, 5, 4, CPU, "auto", True, ("sparse_native", "dense")),
    (33, 5, 4, CPU, "auto", True, ("dense",)),
    (33, 5, 4, CPU, "native", True, ("dense",)),
    (300, 5, 16, CPU, "auto", True, ("sparse_native", "arpack", "dense")),
    (300, 5, 17, CPU, "auto", True, ("arpack", "dense")),
    (196, 5, 4, CPU, "auto", False, ("dense",)),
    (257, 5, 4, CPU, "auto", False, ("arpack", "dense")),
    (196, 5, 4, GPU, "auto", True, ("dense",)),
    (257, 5, 4, GPU, "auto", True, ("subspace", "dense")),
    (257, 5, 4, GPU, "native", True, ("native", "dense")),
    # matrices and complete graphs
    (256, None, 4, CPU, "auto", True, ("dense",)),
    (257, None, 4, CPU, "auto", True, ("arpack", "dense")),
    (257, None, 127, CPU, "auto", True, ("arpack", "dense")),
    (257, None, 128, CPU, "auto", True, ("dense",)),
    (257, None, 4, GPU, "auto", True, ("subspace", "dense")),
    (257, None, 4, CPU, "native", True, ("native", "dense")),
    (257, None, 0, CPU, "native", True, ("dense",)),
    (11, None, 4, CPU, "arpack", True, ("arpack", "dense")),
    (10, None, 4, CPU, "arpack", True, ("dense",)),
    (11, None, 0, CPU, "arpack", True, ("dense",)),
    (4, None, 3, CPU, "subspace", True, ("subspace",)),
    (999, 5, 4, CPU, "subspace", True, ("subspace",)),
    (999, 5, 4, CPU, "arpack", True, ("arpack", "dense")),
    (999, 5, 4, CPU, "dense", True, ("dense",)),
]


@pytest.mark.parametrize(("tokens", "neighbors", "count", "device", "solver", "installed", "methods"), CHOICES, ids=str)
def test_choice_of_methods(monkeypatch, tokens, neighbors, count, device, solver, installed, methods):
    library = Native(object(), "") if installed else Native(None, "not built")
    monkeypatch.setattr(solvers, "load_native", lambda: library)
    monkeypatch.setattr(solvers, "largest_native_count", lambda: 16 if installed else 0)
    assert choose_methods(tokens, neighbors, count, device, solver) == methods


def test_the_native_solver_without_its_library(monkeypatch):
    monkeypatch.setattr(solvers, "load_native", lambda: Native(None, "not built"))
    with pytest.raises(ValueError, match="solver 'native' is not available: not built"):
        choose_methods(196, 5, 4, CPU, "native")


@needs_native
def test_the_native_solver_computes_some_eigenvectors():
    assert largest_native_count() >= 8


def assert_same_subspaces(pairs, laplacian, trivial, count):
    """Values equal those of the dense solver, and so does each eigenspace that lies wholly inside the count."""
    reference = smallest_eigenpairs(laplacian, trivial, laplacian.shape[-1] - 1, "dense")
    torch.testing.assert_close(pairs.values, reference.values[:, :count], rtol=0, atol=3e-14)  # measured: 4.0e-15
    for image in range(len(laplacian)):
        values = reference.values[image]
        ends = [0, *(1 + (values.diff() > 1e-7).nonzero().flatten()).tolist(), len(values)]
        for start, stop in pairwise(ends):
            if stop <= count:
                a, b = pairs.vectors[image, start:stop], reference.vectors[image, start:stop]
                overlap = torch.linalg.svdvals(a @ b.T)
                assert float((1 - overlap).abs().max()) < 3e-14  # measured: 3.4e-15


@pytest.mark.parametrize("solver", ALL)
@pytest.mark.parametrize(("tokens", "neighbors"), [(30, 5), (64, 5), (196, 5), (196, None), (784, 5)])
def test_solvers_agree_with_dense(solver, tokens, neighbors):
    laplacian, trivial = feature_laplacian(torch.randn(2, tokens, 6).cumsum(1), neighbors)
    pairs = smallest_eigenpairs(laplacian, trivial, 6, solver)
    assert float(pairs.residuals.max()) <= 6e-12  # measured: 6.2e-13
    identity = torch.eye(6, dtype=torch.float64).expand(2, 6, 6)
    torch.testing.assert_close(pairs.vectors @ pairs.vectors.mT, identity, rtol=0, atol=3e-14)  # measured: 3.3e-15
    assert float((pairs.vectors @ trivial[..., None]).abs().max()) < 7e-15  # measured: 7.8e-16
    assert_same_subspaces(pairs, laplacian, trivial, 6)


@pytest.mark.parametrize("solver", ALL)
@pytest.mark.parametrize(("components", "identical"), [(2, False), (3, False), (3, True), (5, True)])
def test_all_null_vectors_of_disconnected_graphs(solver, components, identical):
    laplacian, trivial = disconnected_laplacian(components, 20, identical)
    pairs = smallest_eigenpairs(laplacian, trivial, 8, solver)
    assert int((pairs.values.abs() < 1e-15).sum()) == components - 1  # measured: 1.0e-16
    assert_same_subspaces(pairs, laplacian, trivial, 8)


@pytest.mark.parametrize("solver", ALL)
def test_fifty_components(solver):
    laplacian, trivial = disconnected_laplacian(50, 5)
    pairs = smallest_eigenpairs(laplacian, trivial, 6, solver)
    assert float(pairs.values.abs().max()) < 1.5e-15  # measured: 1.6e-16
    assert float((laplacian @ pairs.vectors.mT).abs().max()) < 4e-13  # measured: 4.5e-14


@pytest.mark.parametrize("solver", ALL)
def test_repeated_eigenvalues_of_a_ring(solver):
    ring = torch.eye(40, dtype=torch.float64).roll(1, 0)
    laplacian, trivial = normalized_laplacian((ring + ring.T)[None])
    pairs = smallest_eigenpairs(laplacian, trivial, 6, solver)
    angles = torch.tensor([1, 1, 2, 2, 3, 3], dtype=torch.float64) * 2 * torch.pi / 40
    torch.testing.assert_close(pairs.values[0], 1 - angles.cos(), rtol=0, atol=3e-15)  # measured: 3.2e-16
    assert_same_subspaces(pairs, laplacian, trivial, 6)


@pytest.mark.parametrize("solver", ALL)
@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 7])
def test_every_eigenvector_of_tiny_graphs(solver, tokens):
    laplacian, trivial = feature_laplacian(torch.randn(2, tokens, 3))
    pairs = smallest_eigenpairs(laplacian, trivial, tokens - 1, solver)
    assert pairs.vectors.shape == (2, tokens - 1, tokens)
    if tokens > 1:
        assert_same_subspaces(pairs, laplacian, trivial, tokens - 1)


@pytest.mark.parametrize("solver", ALL)
@pytest.mark.parametrize("tokens", [9, 40])
def test_empty_batch(solver, tokens):
    empty = torch.zeros(0, tokens, tokens).double(), torch.zeros(0, tokens).double()
    assert smallest_eigenpairs(*empty, 3, solver).vectors.shape == (0, 3, tokens)


def test_invalid_requests():
    laplacian, trivial = feature_laplacian(torch.randn(1, 5, 3))
    with pytest.raises(ValueError, match="has 4 non-trivial eigenvectors, asked for 5"):
        smallest_eigenpairs(laplacian, trivial, 5)
    with pytest.raises(ValueError, match="unknown solver"):
        smallest_eigenpairs(laplacian, trivial, 2, "magic")


def test_an_error_reports_the_pairs_that_did_not_converge(monkeypatch):
    monkeypatch.setattr(subspace, "LARGEST_ROUNDS", 2)
    laplacian, trivial = feature_laplacian(torch.randn(3, 400, 6).cumsum(1))
    with pytest.raises(ConvergenceError, match="solver 'subspace' did not converge for image 0") as error:
        smallest_eigenpairs(laplacian, trivial, 5, "subspace")
    assert error.value.eigenpairs.vectors.shape == (3, 5, 400)


def test_the_next_method_solves_only_the_images_that_did_not_converge(monkeypatch):
    laplacian, trivial = feature_laplacian(torch.randn(3, 60, 6).cumsum(1))

    def unreliable(laplacian, trivial, count):
        vectors = dense_eigenvectors(laplacian, trivial, count)
        vectors[1, 0], vectors[2, 4, 7] = torch.nan, 0.0
        return vectors

    batches = []

    def counting(laplacian, trivial, count):
        batches.append(len(laplacian))
        return dense_eigenvectors(laplacian, trivial, count)

    replacements = {"subspace": unreliable, "dense": counting}
    monkeypatch.setattr(solvers, "_MATRIX_SOLVERS", replacements)
    pairs = run_methods(laplacian, trivial, 5, ("subspace", "dense"))
    assert batches == [1, 1]
    monkeypatch.undo()
    assert_same_subspaces(pairs, laplacian, trivial, 5)


def smooth_field(side, channels=8):
    """Features that vary smoothly over a grid, like those of photographs."""
    coarse = torch.randn(1, channels, side // 8, side // 8)
    field = torch.nn.functional.interpolate(coarse, (side, side), mode="bicubic")
    return (field + 0.1 * torch.randn_like(field)).flatten(2).mT


@pytest.mark.parametrize("side", [28, pytest.param(56, marks=pytest.mark.slow)])
@pytest.mark.parametrize("solver", ["arpack", "subspace"])
def test_orders_are_those_of_the_dense_solver(solver, side):
    laplacian, trivial = feature_laplacian(smooth_field(side))
    pairs = smallest_eigenpairs(laplacian, trivial, 4, solver)
    reference = smallest_eigenpairs(laplacian, trivial, 4, "dense")
    for a, b in zip(pairs.vectors[0], reference.vectors[0], strict=True):
        order = b.argsort()
        separated = b[order].diff() > 1e-6
        ascending = (a * torch.sign(a @ b))[order].diff() > 0
        assert separated.double().mean() > 0.5
        assert ascending[separated].all()
