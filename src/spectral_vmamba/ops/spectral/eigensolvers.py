"""The smallest non-trivial eigenpairs of normalized Laplacians, by four solvers behind one function.

An order is only as good as its eigenvector, so every solver works in float64 and returns its residuals, and a pair that
did not converge is an error. A small residual alone does not show that no smaller eigenvalue was missed (Lanczos
started in one component of a disconnected graph never sees the others); each solver says how it rules that out.
"""

from collections.abc import Callable
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.ops.spectral.arpack import arpack_eigenvectors
from spectral_vmamba.ops.spectral.eigenpairs import LARGEST_RESIDUAL, ConvergenceError, Eigenpairs
from spectral_vmamba.ops.spectral.sparse import native_eigenvectors
from spectral_vmamba.ops.spectral.subspace import subspace_eigenvectors

Solver = Literal["auto", "dense", "arpack", "native", "subspace"]
SOLVERS: tuple[str, ...] = get_args(Solver)

# Up to this many tokens the dense solver is about as fast as ARPACK, and has nothing to go wrong.
DENSE_UP_TO = 256


def smallest_eigenpairs(
    laplacian: Float[Tensor, "b l l"], trivial: Float[Tensor, "b l"], count: int, solver: Solver = "auto"
) -> Eigenpairs:
    """The `count` smallest eigenpairs orthogonal to the known null vector `trivial`, in ascending order.

    `auto` picks by size and device, and goes back to `dense` for images where its choice does not converge.
    """
    tokens = laplacian.shape[-1]
    if not 0 <= count <= max(tokens - 1, 0):
        raise ValueError(
            f"a graph of {tokens} tokens has {max(tokens - 1, 0)} non-trivial eigenvectors, asked for {count}"
        )
    if solver not in SOLVERS:
        raise ValueError(f"unknown solver {solver!r}; expected one of {', '.join(SOLVERS)}")
    if solver != "auto":
        return _solve(laplacian, trivial, count, solver)
    try:
        return _solve(laplacian, trivial, count, _pick(tokens, laplacian.device))
    except ConvergenceError as error:
        pairs = error.eigenpairs
    for image in (~(pairs.residuals <= LARGEST_RESIDUAL).all(-1)).nonzero().flatten().tolist():
        i = slice(image, image + 1)
        for mine, exact in zip(pairs, _solve(laplacian[i], trivial[i], count, "dense"), strict=True):
            mine[i] = exact
    return pairs


def dense_eigenvectors(laplacian: Tensor, trivial: Tensor, count: int) -> Float[Tensor, "b m l"]:
    """All eigenvectors by `eigh`, the reference. The trivial one is lifted above the spectrum, which ends at 2."""
    lifted = laplacian + 3 * trivial[:, :, None] * trivial[:, None, :]
    return torch.linalg.eigh(lifted).eigenvectors.mT[:, :count].contiguous()


_SOLVERS: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "dense": dense_eigenvectors,
    "arpack": lambda laplacian, trivial, count: arpack_eigenvectors(laplacian, trivial, count, dense_eigenvectors),
    "native": lambda laplacian, trivial, count: native_eigenvectors(laplacian, trivial, count, dense_eigenvectors),
    "subspace": subspace_eigenvectors,
}


def _pick(tokens: int, device: torch.device) -> str:
    # Not `native`: it is made for sparse graphs, and starts from features (`sparse_eigenpairs`) where it is picked.
    if tokens <= DENSE_UP_TO:
        return "dense"
    return "arpack" if device.type == "cpu" else "subspace"


def _solve(laplacian: Tensor, trivial: Tensor, count: int, solver: str) -> Eigenpairs:
    vectors = _SOLVERS[solver](laplacian, trivial, count)
    applied = vectors @ laplacian
    values = (applied * vectors).sum(-1)
    residuals = (applied - values[..., None] * vectors).norm(dim=-1)
    pairs = Eigenpairs(values, vectors, residuals)
    if residuals.numel() and not bool((residuals <= LARGEST_RESIDUAL).all()):
        image = int(residuals.amax(-1).nan_to_num(torch.inf).argmax())
        raise ConvergenceError(
            f"solver {solver!r} did not converge for image {image} of the batch: largest residual "
            f"{float(residuals[image].max()):.1e} > {LARGEST_RESIDUAL:.0e}; solver='dense' always does",
            pairs,
        )
    return pairs
