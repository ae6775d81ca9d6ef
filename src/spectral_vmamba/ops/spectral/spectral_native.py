"""Nearest-neighbor graphs, their eigenvectors and canonical signs in C++ (csrc/graph.cpp, eigen.cpp, signs.cpp).

Computes the same graphs and eigenvectors as `affinity`, `normalized_laplacian` and `smallest_eigenpairs` without l × l
matrices. Threads share the images of a batch, or the tokens of a large image where there are fewer images than threads.
"""

from ctypes import byref, c_void_p
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array, identity
from torch import Tensor

from spectral_vmamba.ops.native import EigenOptions, GraphArrays, GraphOptions, SignOptions, call, load_native, pointer
from spectral_vmamba.ops.spectral.contraction import NodeGraph
from spectral_vmamba.ops.spectral.eigenpairs import CLUSTER, LARGEST_RESIDUAL, Eigenpairs
from spectral_vmamba.ops.spectral.graph import SAME, TIE, WEAKEST_EDGE

# The solver works with blocks of up to 32 vectors, and a graph must be larger than that.
SMALLEST_GRAPH = 34
# Eigenpairs beyond the wanted ones, to detect whether the last wanted eigenvalue is repeated.
GUARD = 2


class SparseGraphs(NamedTuple):
    """A batch of symmetric weighted graphs in compressed rows. Tokens with equal features are one node: see graph.h."""

    nodes: Int[Tensor, "b"]
    offsets: Int[Tensor, "b l1"]
    owner: Int[Tensor, "b l"]
    sizes: Int[Tensor, "b l"]
    columns: Int[Tensor, "e"]
    weights: Float[Tensor, "e"]

    @property
    def images(self) -> int:
        return self.owner.shape[0]

    @property
    def tokens(self) -> int:
        return self.owner.shape[1]

    def node_graph(self, image: int) -> NodeGraph:
        nodes, offsets = int(self.nodes[image]), self.offsets[image].numpy()
        rows = np.repeat(np.arange(nodes), np.diff(offsets[: nodes + 1]))
        columns, weights = (part[offsets[0] : offsets[-1]].numpy() for part in (self.columns, self.weights))
        return NodeGraph(self.owner[image].numpy(), self.sizes[image, :nodes].numpy(), rows, columns, weights)

    def affinity(self, image: int) -> csr_array:
        """The weights between the tokens of one image, as a scipy matrix."""
        graph = self.node_graph(image)
        nodes = len(graph.sizes)
        between = csr_array((graph.weights, (graph.rows, graph.columns)), shape=(nodes, nodes))
        between = between + identity(nodes, format="csr")
        return csr_array(between[graph.owner][:, graph.owner] - identity(self.tokens, format="csr"))


def largest_native_count() -> int:
    """The largest number of eigenvectors that the native solver computes; 0 if the library is missing."""
    library = load_native().library
    return 0 if library is None else library.sv_most_eigenvectors()


def neighbor_graphs(features: Float[Tensor, "b l c"], neighbors: int) -> SparseGraphs:
    """The graphs of `affinity(features, neighbors)`. O(l²c) time, and memory for the edges only.

    There are O(l) edges, except where very many tokens are equally near to each other without being equal.
    """
    features = features.detach().double().contiguous()
    images, tokens, channels = features.shape
    if not 1 <= neighbors < tokens - 1:
        raise ValueError(f"expected 1 to {tokens - 2} neighbors in graphs of {tokens} tokens, got {neighbors}")
    options = GraphOptions(images, tokens, channels, neighbors, SAME, TIE, WEAKEST_EDGE, torch.get_num_threads(), 0)
    handle = c_void_p()
    call("sv_neighbor_graphs", byref(options), pointer(features), byref(handle))
    library = load_native().library
    assert library is not None
    try:
        entries = library.sv_graphs_entries(handle)
        graphs = SparseGraphs(
            nodes=torch.empty(images, dtype=torch.int64),
            offsets=torch.empty(images, tokens + 1, dtype=torch.int64),
            owner=torch.empty(images, tokens, dtype=torch.int32),
            sizes=torch.empty(images, tokens, dtype=torch.int32),
            columns=torch.empty(entries, dtype=torch.int32),
            weights=torch.empty(entries, dtype=torch.float64),
        )
        library.sv_graphs_copy(handle, byref(_graph_arrays(graphs)))
    finally:
        library.sv_graphs_free(handle)
    return graphs


def sparse_eigenpairs(
    graphs: SparseGraphs, count: int, wanted: int | None = None
) -> tuple[Eigenpairs, Float[Tensor, "b l"]]:
    """The `count` smallest non-trivial eigenpairs of the normalized Laplacians, and the trivial vectors.

    The first `wanted` pairs (defaults to all but two) are as accurate as float64 allows; the others only show whether
    the last wanted eigenvalue is repeated. Images that did not converge have infinite residuals.
    """
    pairs, trivial, _ = _solve(graphs, count, max(count - GUARD, 1) if wanted is None else wanted)
    return pairs, trivial


class SolverWork(NamedTuple):
    """What the solver did for each graph: rounds (negative where it failed), and products of the Laplacian with a block
    of vectors."""

    rounds: Int[Tensor, "b"]
    products: Int[Tensor, "b"]


def measure_solver_work(graphs: SparseGraphs, count: int, wanted: int) -> SolverWork:
    """Solve as `sparse_eigenpairs` does, and return what that took."""
    return _solve(graphs, count, wanted)[2]


def _solve(graphs: SparseGraphs, count: int, wanted: int) -> tuple[Eigenpairs, Tensor, SolverWork]:
    images, tokens = graphs.images, graphs.tokens
    values, residuals = (torch.empty(images, count, dtype=torch.float64) for _ in range(2))
    vectors = torch.empty(images, count, tokens, dtype=torch.float64)
    trivial = torch.empty(images, tokens, dtype=torch.float64)
    work = SolverWork(*(torch.zeros(images, dtype=torch.int32) for _ in range(2)))
    options = EigenOptions(images, tokens, wanted, count, CLUSTER, torch.get_num_threads(), 0)
    outputs = (pointer(tensor) for tensor in (values, vectors, residuals, trivial, *work))
    call("sv_smallest_eigenpairs", byref(options), byref(_graph_arrays(graphs)), *outputs)
    failed = (work.rounds < 0) | ~(residuals[:, :wanted] <= LARGEST_RESIDUAL).all(-1)
    if bool(failed.any()):
        values[failed], vectors[failed], residuals[failed] = torch.nan, torch.nan, torch.inf
    return Eigenpairs(values, vectors, residuals), trivial, work


def native_eigenvectors(
    laplacian: Float[Tensor, "b l l"], trivial: Float[Tensor, "b l"], count: int
) -> Float[Tensor, "b m l"]:
    """Solve existing Laplacian matrices. NaN for images that did not converge."""
    if len(laplacian) == 0:
        return laplacian.new_zeros(0, count, laplacian.shape[-1])
    pairs, _ = sparse_eigenpairs(_graphs_from_laplacian(laplacian.cpu(), trivial.cpu()), count, wanted=count)
    return pairs.vectors.to(laplacian)


def _graphs_from_laplacian(laplacian: Float[Tensor, "b l l"], trivial: Float[Tensor, "b l"]) -> SparseGraphs:
    """Graphs with these Laplacians: W_ij = −L_ij t_i t_j, whose degrees are t_i²."""
    images, tokens, _ = laplacian.shape
    weights = -laplacian * trivial[:, :, None] * trivial[:, None, :]
    weights.diagonal(dim1=-2, dim2=-1).zero_()
    present = weights != 0
    ends = present.sum(-1).flatten().cumsum(0).view(images, tokens)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1, -1]])[:, None]
    every = torch.arange(tokens, dtype=torch.int32).repeat(images, 1)
    return SparseGraphs(
        nodes=torch.full((images,), tokens),
        offsets=torch.cat([starts, ends], dim=1),
        owner=every,
        sizes=torch.ones_like(every),
        columns=present.nonzero()[:, 2].int(),
        weights=weights[present].double(),
    )


def _graph_arrays(graphs: SparseGraphs) -> GraphArrays:
    ordered = (graphs.nodes, graphs.offsets, graphs.owner, graphs.sizes, graphs.columns, graphs.weights)
    return GraphArrays(*(pointer(part) for part in ordered))


def native_signs(
    vectors: Float[Tensor, "b m l"],
    trivial: Float[Tensor, "b l"],
    content: Float[Tensor, "b l"],
    squared_radii: Int[Tensor, "l"],
    node_order: Int[Tensor, "b l"],
    significant: float,
    clear: float,
    degree: int,
) -> Float[Tensor, "b m"]:
    """The signs of `canonical.signs_by_probes`, by one short loop in place of about sixty small tensor operations."""
    images, count, tokens = vectors.shape
    if vectors.stride()[1:] != (tokens, 1):
        vectors = vectors.contiguous()
    inputs = [tensor.contiguous() for tensor in (trivial, content, squared_radii, node_order)]
    signs = torch.empty(images, count, dtype=torch.float64)
    threads = torch.get_num_threads()
    options = SignOptions(images, tokens, count, vectors.stride(0), significant, clear, degree, threads)
    arrays = (pointer(tensor) for tensor in (vectors, *inputs, signs))
    call("sv_eigenvector_signs", byref(options), *arrays)
    return signs
