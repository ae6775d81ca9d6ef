"""Shift-invert Lanczos by scipy's ARPACK on the sparse Laplacian, one image after the other on the CPU."""

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csc_matrix, identity
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, splu
from torch import Tensor

# Just below the spectrum: L + shift is positive definite, and the wanted eigenvalues are the closest to the shift.
SHIFT = 1e-2
# Eigenvalues this near the last computed one are not counted: it does not matter which ones of a cluster come out.
MARGIN = 1e-8


def arpack_eigenvectors(
    laplacian: Float[Tensor, "b l l"], trivial: Float[Tensor, "b l"], count: int
) -> Float[Tensor, "b m l"]:
    """NaN for images where ARPACK failed or missed a pair. Requires more than 2 · count + 2 tokens."""
    vectors = laplacian.new_full((len(laplacian), count, laplacian.shape[-1]), torch.nan)
    for image, (matrix, null) in enumerate(zip(laplacian, trivial, strict=True)):
        solution = _solve(matrix.cpu().numpy(), null.cpu().numpy(), count)
        if solution is not None:
            vectors[image] = torch.from_numpy(solution)
    return vectors


def _solve(laplacian: np.ndarray, trivial: np.ndarray, count: int) -> np.ndarray | None:
    sparse = csc_matrix(laplacian)
    factor = _factor(sparse, -SHIFT)

    def without_trivial(vector: np.ndarray) -> np.ndarray:
        return vector - trivial * (trivial @ vector)

    inverse = LinearOperator(  # pyright: ignore[reportCallIssue]
        sparse.shape,
        matvec=lambda vector: without_trivial(factor.solve(without_trivial(vector.ravel()))),  # pyright: ignore
        dtype=np.float64,  # pyright: ignore
    )
    start = without_trivial(np.random.default_rng(0).standard_normal(len(laplacian)))
    try:
        inverted, vectors = eigsh(inverse, k=count, which="LA", v0=start, tol=0)
    except ArpackError:
        return None
    ascending = np.argsort(-inverted)
    values, vectors = 1 / inverted[ascending] - SHIFT, vectors[:, ascending]
    bound = values[-1] - MARGIN
    computed = int((values < bound).sum()) + int(bound > 0)  # the trivial eigenvalue, 0, counts too
    if _eigenvalues_below(sparse, bound) != computed:
        return None
    return np.ascontiguousarray(vectors.T)


def _factor(sparse: csc_matrix, shift: float):
    tokens, _ = sparse.get_shape()
    shifted = (sparse - shift * identity(tokens, format="csc")).tocsc()
    return splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})


def _eigenvalues_below(sparse: csc_matrix, bound: float) -> int | None:
    """Sylvester's law of inertia: as many eigenvalues lie below `bound` as L − bound has negative pivots.

    This proves that Lanczos missed none. `None` if the factorization had to pivot off the diagonal.
    """
    try:
        factor = _factor(sparse, bound)
    except RuntimeError:
        return None
    if not np.array_equal(factor.perm_r, factor.perm_c):
        return None
    return int((factor.U.diagonal() < 0).sum())
