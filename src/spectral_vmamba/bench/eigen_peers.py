"""The smallest eigenpairs of a graph's normalized Laplacian, by other people's solvers.

Each takes the sparse Laplacian of one image, brings it into the form the solver likes, and returns the call to time.
That gives an orthonormal (l, count) basis, the trivial vector included, in ascending order.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csc_array, csr_array, eye_array
from scipy.sparse.linalg import eigsh
from torch import Tensor

TOLERANCE = 1e-12
# Just below the spectrum: L + SHIFT is positive definite, so its factorization cannot break down.
SHIFT = 1e-2
# A bound on the time of solvers that would not end; exceeding it counts as not converged.
MOST_RESTARTS = 5000
MOST_STEPS = 2000

Basis = Float[np.ndarray, "l m"]
Sparse = Any  # a scipy.sparse.csr_array; its type stubs do not know that it has a shape


def dense(laplacian: Sparse, count: int) -> Callable[[], Basis]:
    matrix = torch.from_numpy(laplacian.toarray())
    return lambda: torch.linalg.eigh(matrix).eigenvectors[:, :count].numpy()


def shift_invert(laplacian: Sparse, count: int) -> Callable[[], Basis]:
    matrix: Sparse = csc_array(laplacian)
    options: dict[str, Any] = {"sigma": -SHIFT, "tol": TOLERANCE}
    return lambda: _ascending(eigsh(matrix, count, v0=_start(matrix), **options))


def largest_of_complement(laplacian: Sparse, count: int) -> Callable[[], Basis]:
    """The largest of I − L: Lanczos without a factorization."""
    matrix: Sparse = csr_array(eye_array(laplacian.shape[0]) - laplacian)
    options: dict[str, Any] = {"tol": TOLERANCE, "maxiter": MOST_RESTARTS}
    return lambda: _ascending(eigsh(matrix, count, which="LA", v0=_start(matrix), **options))[:, ::-1]


def lobpcg(laplacian: Sparse, count: int) -> Callable[[], Basis]:
    matrix = _sparse_tensor(laplacian)
    start = torch.from_numpy(np.random.default_rng(0).standard_normal((laplacian.shape[0], count)))
    options: dict[str, Any] = {"niter": MOST_STEPS, "tol": TOLERANCE, "largest": False}
    return lambda: torch.lobpcg(matrix, X=start.clone(), **options)[1].numpy()


def normalized_laplacian(affinity: Sparse) -> Sparse:
    """I − D^(−1/2) W D^(−1/2) of a graph without isolated nodes."""
    inverse_root = 1 / np.sqrt(affinity.sum(axis=1))
    scaled = affinity.multiply(inverse_root[:, None]).multiply(inverse_root[None, :])
    return csr_array(eye_array(affinity.shape[0]) - scaled)


def largest_residual(laplacian: Sparse, basis: Basis) -> float:
    """max ‖Lv − λv‖ with the Rayleigh quotients λ."""
    unit = basis / np.linalg.norm(basis, axis=0)
    applied = laplacian @ unit
    values = (unit * applied).sum(0)
    return float(np.linalg.norm(applied - unit * values, axis=0).max())


def principal_angle(basis: Basis, other: Basis) -> float:
    """The largest angle, in radians, between two subspaces: arcsin ‖(I − QQᵀ)P‖."""
    first, second = np.linalg.qr(basis)[0], np.linalg.qr(other)[0]
    outside = second - first @ (first.T @ second)
    return float(np.arcsin(min(np.linalg.norm(outside, 2), 1.0)))


def _start(matrix: Sparse) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(matrix.shape[0])


def _ascending(solution: Any) -> Basis:
    values, vectors = solution
    return vectors[:, np.argsort(values)]


def _sparse_tensor(matrix: Sparse) -> Tensor:
    starts, columns = (torch.from_numpy(part).long() for part in (matrix.indptr, matrix.indices))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        values = torch.from_numpy(matrix.data)
        return torch.sparse_csr_tensor(starts, columns, values, size=matrix.shape, check_invariants=False)
