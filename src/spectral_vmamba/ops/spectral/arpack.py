"""Shift-invert Lanczos through scipy's ARPACK on the sparse Laplacian, one image after the other on the CPU."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csc_matrix, identity
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, splu
from torch import Tensor

# Just below the spectrum: L + shift is positive definite, and the wanted eigenvalues are by far its closest.
SHIFT = 1e-2
# Eigenvalues this near the last one found are not counted: which of a cluster were found does not matter here.
MARGIN = 1e-8


def arpack_eigenvectors(
    laplacian: Float[Tensor, "b l l"],
    trivial: Float[Tensor, "b l"],
    count: int,
    fallback: Callable[[Tensor, Tensor, int], Tensor],
) -> Float[Tensor, "b m l"]:
    """`fallback` takes over images whose graph is too small for ARPACK, or where ARPACK failed or missed a pair."""
    images = []
    for one, null in zip(laplacian, trivial, strict=True):
        vectors = _solve(one.cpu().numpy(), null.cpu().numpy(), count)
        if vectors is None:
            images.append(fallback(one[None], null[None], count)[0])
        else:
            images.append(torch.from_numpy(vectors).to(one))
    return torch.stack(images) if images else laplacian.new_zeros(0, count, laplacian.shape[-1])


def _solve(laplacian: np.ndarray, trivial: np.ndarray, count: int) -> np.ndarray | None:
    tokens = len(laplacian)
    if count == 0 or tokens <= 2 * count + 2:
        return None
    sparse = csc_matrix(laplacian)
    factor = _factor(sparse, -SHIFT)

    def without_trivial(vector: np.ndarray) -> np.ndarray:
        return vector - trivial * (trivial @ vector)

    inverse = LinearOperator(  # pyright: ignore[reportCallIssue]
        sparse.shape,
        matvec=lambda vector: without_trivial(factor.solve(without_trivial(vector.ravel()))),  # pyright: ignore
        dtype=np.float64,  # pyright: ignore
    )
    start = without_trivial(np.random.default_rng(0).standard_normal(tokens))
    try:
        inverted, vectors = eigsh(inverse, k=count, which="LA", v0=start, tol=0)
    except ArpackError:
        return None
    ascending = np.argsort(-inverted)
    values, vectors = 1 / inverted[ascending] - SHIFT, vectors[:, ascending]
    below_last_cluster = values[-1] - MARGIN
    found = int((values < below_last_cluster).sum()) + int(below_last_cluster > 0)  # the trivial one lies there too
    if _eigenvalues_below(sparse, below_last_cluster) != found:
        return None
    return np.ascontiguousarray(vectors.T)


def _factor(sparse: csc_matrix, shift: float):
    tokens, _ = sparse.get_shape()
    shifted = (sparse - shift * identity(tokens, format="csc")).tocsc()
    return splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})


def _eigenvalues_below(sparse: csc_matrix, bound: float) -> int | None:
    """Sylvester's law of inertia: as many eigenvalues lie below `bound` as L − bound has negative pivots.

    This proves that Lanczos missed none. `None` if the factorization had to leave the diagonal.
    """
    try:
        factor = _factor(sparse, bound)
    except RuntimeError:
        return None
    if not np.array_equal(factor.perm_r, factor.perm_c):
        return None
    return int((factor.U.diagonal() < 0).sum())
