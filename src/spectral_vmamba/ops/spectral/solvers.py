"""The smallest non-trivial eigenpairs of normalized Laplacians, and the choice of the solver that computes them.

Visiting orders are only as accurate as their eigenvectors, so every solver works in float64 and every pair has its
residual checked. A small residual alone does not prove that no smaller eigenvalue was missed: Lanczos that starts in
one component of a disconnected graph never sees the others. Each solver documents how it rules that out.
"""

from collections.abc import Callable
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.ops.native import load_native, notice_missing
from spectral_vmamba.ops.spectral.arpack import arpack_eigenvectors
from spectral_vmamba.ops.spectral.dense import dense_eigenvectors
from spectral_vmamba.ops.spectral.eigenpairs import LARGEST_RESIDUAL, ConvergenceError, Eigenpairs
from spectral_vmamba.ops.spectral.spectral_native import SMALLEST_GRAPH, largest_native_count, native_eigenvectors
from spectral_vmamba.ops.spectral.subspace import subspace_eigenvectors

Solver = Literal["auto", "dense", "arpack", "native", "subspace"]
SOLVERS: tuple[str, ...] = get_args(Solver)

# What can run: a solver for matrices, or "sparse_native", the native solver on graphs built sparse from features.
Method = Literal["sparse_native", "native", "dense", "arpack", "subspace"]

# Up to this many tokens the dense solver is about as fast as ARPACK, and it cannot fail.
DENSE_UP_TO = 256
# Graphs with more than tokens / 4 neighbors have eigenvalues so close together that a dense solver is faster.
SPARSE_SHARE = 4

_MATRIX_SOLVERS: dict[Method, Callable[[Tensor, Tensor, int], Tensor]] = {
    "dense": dense_eigenvectors,
    "arpack": arpack_eigenvectors,
    "native": native_eigenvectors,
    "subspace": subspace_eigenvectors,
}


def choose_methods(
    tokens: int, neighbors: int | None, count: int, device: torch.device, solver: Solver = "auto"
) -> tuple[Method, ...]:
    """The methods to run, in order: each takes over the images that the one before did not solve.

    `neighbors` is the number of neighbors in graphs that are still to be built from features; `None` stands for
    complete graphs and for matrices that exist already. Raises a ValueError for an unknown or unavailable solver.
    """
    if solver not in SOLVERS:
        raise ValueError(f"unknown solver {solver!r}; expected one of {', '.join(SOLVERS)}")
    on_cpu = device.type == "cpu"
    sparse = neighbors is not None and neighbors < tokens // SPARSE_SHARE
    if solver == "auto" and sparse and on_cpu:
        notice_missing()
    if solver == "native" and load_native().library is None:
        raise ValueError(f"solver 'native' is not available: {load_native().reason}")
    native_fits = tokens >= SMALLEST_GRAPH and 1 <= count <= largest_native_count()
    if solver in ("auto", "native") and sparse and on_cpu and native_fits:
        return ("sparse_native", *choose_methods(tokens, None, count, device, "auto"))
    automatic: Method = "dense" if tokens <= DENSE_UP_TO else "arpack" if on_cpu else "subspace"
    method: Method = automatic if solver == "auto" else solver
    fits = {"arpack": count > 0 and 2 * count + 2 < tokens, "native": native_fits}.get(method, True)
    if method == "dense" or not fits:
        return ("dense",)
    return ("subspace",) if solver == "subspace" else (method, "dense")


def smallest_eigenpairs(
    laplacian: Float[Tensor, "b l l"], trivial: Float[Tensor, "b l"], count: int, solver: Solver = "auto"
) -> Eigenpairs:
    """The `count` smallest eigenpairs orthogonal to the known null vector `trivial`, in ascending order.

    `auto` chooses by size and device (see `choose_methods`). Raises a ConvergenceError if a pair did not converge.
    """
    tokens = laplacian.shape[-1]
    if not 0 <= count <= max(tokens - 1, 0):
        raise ValueError(
            f"a graph of {tokens} tokens has {max(tokens - 1, 0)} non-trivial eigenvectors, asked for {count}"
        )
    return run_methods(laplacian, trivial, count, choose_methods(tokens, None, count, laplacian.device, solver))


def run_methods(laplacian: Tensor, trivial: Tensor, count: int, methods: tuple[Method, ...]) -> Eigenpairs:
    """Solve by the first method, and the images that do not converge by the next ones."""
    pairs = _solve(laplacian, trivial, count, methods[0])
    for method in methods[1:]:
        for image in _unconverged(pairs):
            i = slice(image, image + 1)
            pairs.replace_image(image, _solve(laplacian[i], trivial[i], count, method))
    unconverged = _unconverged(pairs)
    if unconverged:
        raise ConvergenceError(
            f"solver {methods[-1]!r} did not converge for image {unconverged[0]} of the batch: largest residual "
            f"{float(pairs.residuals[unconverged[0]].max()):.1e} > {LARGEST_RESIDUAL:.0e}; solver='dense' always does",
            pairs,
        )
    return pairs


def _solve(laplacian: Tensor, trivial: Tensor, count: int, method: Method) -> Eigenpairs:
    vectors = _MATRIX_SOLVERS[method](laplacian, trivial, count)
    applied = vectors @ laplacian
    values = (applied * vectors).sum(-1)
    return Eigenpairs(values, vectors, (applied - values[..., None] * vectors).norm(dim=-1))


def _unconverged(pairs: Eigenpairs) -> list[int]:
    return (~(pairs.residuals <= LARGEST_RESIDUAL).all(-1)).nonzero().flatten().tolist()
