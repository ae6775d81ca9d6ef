"""The smallest eigenpairs of a normalized graph Laplacian, by the solvers of other packages.

Each function takes the sparse Laplacian of one image, converts it to the form that the solver works best with, and
returns the call to time. The call returns an orthonormal (l, count) basis in ascending order of the eigenvalues, the
trivial vector first.
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
# Just below the spectrum: L + SHIFT is positive definite, so its factorization exists.
SHIFT = 1e-2
# Limits of solvers that might not finish; reaching a limit counts as not converged.
MOST_RESTARTS = 5000
MOST_STEPS = 2000

Basis = Float[np.ndarray, "l m"]
Sparse = Any  # a scipy.sparse.csr_array; its type stubs do not declare a shape


def dense(laplacian: Sparse, count: int) -> Callable[[], Basis]:
    matrix = torch.from_numpy(laplacian.toarray())
    return lambda: torch.linalg.eigh(matrix).eigenvectors[:, :count].numpy()


def shift_invert(laplacian: Sparse, count: int) -> Callable[[], Basis]:
    matrix: Sparse = csc_array(laplacian)
    options: dict[str, Any] = {"sigma": -SHIFT, "tol": TOLERANCE}
    return lambda: _sort_ascending(eigsh(matrix, count, v0=_start_vector(matrix), **options))


def largest_of_complement(laplacian: Sparse, count: int) -> Callable[[], Basis]:
    """The largest eigenpairs of I − L: Lanczos without a factorization."""
    matrix: Sparse = csr_array(eye_array(laplacian.shape[0]) - laplacian)
    options: dict[str, Any] = {"tol": TOLERANCE, "maxiter": MOST_RESTARTS}
    return lambda: _sort_ascending(eigsh(matrix, count, which="LA", v0=_start_vector(matrix), **options))[:, ::-1]


def lobpcg(laplacian: Sparse, count: int) -> Callable[[], Basis]:
    matrix = _sparse_tensor(laplacian)
    start = torch.from_numpy(np.random.default_rng(0).standard_normal((laplacian.shape[0], count)))
    options: dict[str, Any] = {"niter": MOST_STEPS, "tol": TOLERANCE, "largest": False}
    return lambda: torch.lobpcg(matrix, X=start.clone(), **options)[1].numpy()


def largest_residual(laplacian: Sparse, basis: Basis) -> float:
    """Return max ‖Lv − λv‖, with Rayleigh quotients λ."""
    unit = basis / np.linalg.norm(basis, axis=0)
    product = laplacian @ unit
    values = (unit * product).sum(0)
    return float(np.linalg.norm(product - unit * values, axis=0).max())


def _start_vector(matrix: Sparse) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(matrix.shape[0])


def _sort_ascending(solution: Any) -> Basis:
    values, vectors = solution
    return vectors[:, np.argsort(values)]


def _sparse_tensor(matrix: Sparse) -> Tensor:
    starts, columns = (torch.from_numpy(part).long() for part in (matrix.indptr, matrix.indices))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        values = torch.from_numpy(matrix.data)
        return torch.sparse_csr_tensor(starts, columns, values, size=matrix.shape, check_invariants=False)
