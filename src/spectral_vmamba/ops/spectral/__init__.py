"""STS, the spectral half of the Spectral Traversal Scan: from token features to ranks along graph eigenvectors."""

from spectral_vmamba.ops.spectral.canonical import canonical_vectors
from spectral_vmamba.ops.spectral.eigenpairs import ConvergenceError, Eigenpairs
from spectral_vmamba.ops.spectral.eigensolvers import SOLVERS, Solver, smallest_eigenpairs
from spectral_vmamba.ops.spectral.graph import affinity
from spectral_vmamba.ops.spectral.laplacian import normalized_laplacian
from spectral_vmamba.ops.spectral.sparse import Graphs, neighbor_graphs, sparse_eigenpairs
from spectral_vmamba.ops.spectral.traverse import spectral_ranks, spectral_traversal

__all__ = [
    "SOLVERS",
    "ConvergenceError",
    "Eigenpairs",
    "Graphs",
    "Solver",
    "affinity",
    "canonical_vectors",
    "neighbor_graphs",
    "normalized_laplacian",
    "smallest_eigenpairs",
    "sparse_eigenpairs",
    "spectral_ranks",
    "spectral_traversal",
]
