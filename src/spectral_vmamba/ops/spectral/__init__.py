"""STS, the spectral half of the Spectral Traversal Scan: from token features to ranks along graph eigenvectors."""

from spectral_vmamba.ops.spectral.canonical import canonical_vectors
from spectral_vmamba.ops.spectral.eigensolvers import (
    SOLVERS,
    ConvergenceError,
    Eigenpairs,
    Solver,
    smallest_eigenpairs,
)
from spectral_vmamba.ops.spectral.graph import affinity
from spectral_vmamba.ops.spectral.laplacian import normalised_laplacian
from spectral_vmamba.ops.spectral.traverse import spectral_ranks, spectral_traversal

__all__ = [
    "SOLVERS",
    "ConvergenceError",
    "Eigenpairs",
    "Solver",
    "affinity",
    "canonical_vectors",
    "normalised_laplacian",
    "smallest_eigenpairs",
    "spectral_ranks",
    "spectral_traversal",
]
