"""STS, the spectral half of the Spectral Traversal Scan: from token features to ranks along graph eigenvectors."""

from spectral_vmamba.ops.spectral.canonical import canonical_vectors
from spectral_vmamba.ops.spectral.eigenpairs import ConvergenceError, Eigenpairs
from spectral_vmamba.ops.spectral.graph import affinity, normalized_laplacian
from spectral_vmamba.ops.spectral.pipeline import spectral_ranks, spectral_traversal
from spectral_vmamba.ops.spectral.rules import DEFAULT_RULES, GraphRules
from spectral_vmamba.ops.spectral.solvers import SOLVERS, Solver, smallest_eigenpairs
from spectral_vmamba.ops.spectral.spectral_native import (
    SparseGraphs,
    measure_solver_work,
    neighbor_graphs,
    sparse_eigenpairs,
)

__all__ = [
    "DEFAULT_RULES",
    "SOLVERS",
    "ConvergenceError",
    "Eigenpairs",
    "GraphRules",
    "Solver",
    "SparseGraphs",
    "affinity",
    "canonical_vectors",
    "measure_solver_work",
    "neighbor_graphs",
    "normalized_laplacian",
    "smallest_eigenpairs",
    "sparse_eigenpairs",
    "spectral_ranks",
    "spectral_traversal",
]
