"""Nearest-neighbor graphs and their eigenvectors in C++ (csrc/graph.cpp, csrc/eigen.cpp), without l × l matrices.

The same graphs and eigenvectors as `affinity`, `normalized_laplacian` and `smallest_eigenpairs` give; threads share the
images out.
"""

from collections.abc import Callable
from ctypes import Structure, byref, c_double, c_int32, c_int64, c_void_p
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from scipy.sparse import csr_array, identity
from torch import Tensor

from spectral_vmamba.ops.native import call, load_native, pointer
from spectral_vmamba.ops.spectral.canonical import CLUSTER
from spectral_vmamba.ops.spectral.eigenpairs import LARGEST_RESIDUAL, Eigenpairs
from spectral_vmamba.ops.spectral.graph import SAME, TIE, WEAKEST_EDGE

# The solver works with blocks of up to 32 vectors, and a graph must be larger than that.
SMALLEST_GRAPH = 34
# Eigenpairs past the wanted ones, to see whether the last of these is single.
GUARD = 2


class Graphs(NamedTuple):
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

    def affinity(self, image: int) -> csr_array:
        """One image's weights between tokens as a scipy matrix."""
        nodes, offsets = int(self.nodes[image]), self.offsets[image].numpy()
        entries = slice(offsets[0], offsets[-1])
        parts = (self.weights.numpy()[entries], self.columns.numpy()[entries], offsets[: nodes + 1] - offsets[0])
        between = csr_array(parts, shape=(nodes, nodes)) + identity(nodes, format="csr")
        owner = self.owner[image].numpy()
        return csr_array(between[owner][:, owner] - identity(self.tokens, format="csr"))


class _Arrays(Structure):
    _fields_ = [(name, c_void_p) for name in ("nodes", "offsets", "owner", "sizes", "columns", "weights")]

    @classmethod
    def of(cls, graphs: Graphs) -> "_Arrays":
        ordered = (graphs.nodes, graphs.offsets, graphs.owner, graphs.sizes, graphs.columns, graphs.weights)
        return cls(*(pointer(part) for part in ordered))


class _GraphOptions(Structure):
    _fields_ = (
        [(name, c_int64) for name in ("images", "tokens", "channels", "neighbors")]
        + [(name, c_double) for name in ("same", "tie", "weakest")]
        + [(name, c_int32) for name in ("threads", "reserved")]
    )


class _EigenOptions(Structure):
    _fields_ = (
        [(name, c_int64) for name in ("images", "tokens", "wanted", "count")]
        + [("cluster", c_double)]
        + [(name, c_int32) for name in ("threads", "reserved")]
    )


def native_takes(tokens: int, wanted: int) -> bool:
    """Whether the native solver is installed and made for such graphs: not tiny, few eigenvectors."""
    library = load_native().library
    return library is not None and tokens >= SMALLEST_GRAPH and 1 <= wanted <= library.sv_most_eigenvectors()


def neighbor_graphs(features: Float[Tensor, "b l c"], neighbors: int) -> Graphs:
    """The graphs of `affinity(features, neighbors)`. O(l²c) time; memory for the edges only, which is
    O(l) unless very many tokens are equally near each other without being equal."""
    features = features.detach().double().contiguous()
    images, tokens, channels = features.shape
    if not 1 <= neighbors < tokens - 1:
        raise ValueError(f"expected 1 to {tokens - 2} neighbors in graphs of {tokens} tokens, got {neighbors}")
    options = _GraphOptions(images, tokens, channels, neighbors, SAME, TIE, WEAKEST_EDGE, torch.get_num_threads(), 0)
    handle = c_void_p()
    call("sv_neighbor_graphs", byref(options), pointer(features), byref(handle))
    library = load_native().library
    assert library is not None
    try:
        library.sv_graphs_entries.restype = c_int64
        entries = library.sv_graphs_entries(handle)
        graphs = Graphs(
            nodes=torch.empty(images, dtype=torch.int64),
            offsets=torch.empty(images, tokens + 1, dtype=torch.int64),
            owner=torch.empty(images, tokens, dtype=torch.int32),
            sizes=torch.empty(images, tokens, dtype=torch.int32),
            columns=torch.empty(entries, dtype=torch.int32),
            weights=torch.empty(entries, dtype=torch.float64),
        )
        library.sv_graphs_copy(handle, byref(_Arrays.of(graphs)))
    finally:
        library.sv_graphs_free(handle)
    return graphs


def sparse_eigenpairs(graphs: Graphs, count: int, wanted: int | None = None) -> tuple[Eigenpairs, Float[Tensor, "b l"]]:
    """The `count` smallest non-trivial eigenpairs of the normalized Laplacians, and the trivial vectors.

    The first `wanted` (by default all but two) are as accurate as float64 allows; the others only tell whether these
    stand alone. A pair that did not converge has an infinite residual.
    """
    images, tokens = graphs.images, graphs.tokens
    wanted = max(count - GUARD, 1) if wanted is None else wanted
    values, residuals = (torch.empty(images, count, dtype=torch.float64) for _ in range(2))
    vectors = torch.empty(images, count, tokens, dtype=torch.float64)
    trivial = torch.empty(images, tokens, dtype=torch.float64)
    rounds = torch.empty(images, dtype=torch.int32)
    options = _EigenOptions(images, tokens, wanted, count, CLUSTER, torch.get_num_threads(), 0)
    outputs = (pointer(tensor) for tensor in (values, vectors, residuals, trivial, rounds))
    call("sv_smallest_eigenpairs", byref(options), byref(_Arrays.of(graphs)), *outputs)
    failed = (rounds < 0) | ~(residuals[:, :wanted] <= LARGEST_RESIDUAL).all(-1)
    if bool(failed.any()):
        values[failed], vectors[failed], residuals[failed] = torch.nan, torch.nan, torch.inf
    return Eigenpairs(values, vectors, residuals), trivial


def native_eigenvectors(
    laplacian: Float[Tensor, "b l l"],
    trivial: Float[Tensor, "b l"],
    count: int,
    fallback: Callable[[Tensor, Tensor, int], Tensor],
) -> Float[Tensor, "b m l"]:
    """The solver for Laplacians that are there already. `fallback` takes over where it is not made for the graph, and
    images that it did not solve."""
    if load_native().library is None:
        raise ValueError(f"solver 'native' is not available: {load_native().reason}")
    if len(laplacian) == 0 or not native_takes(laplacian.shape[-1], count):
        return fallback(laplacian, trivial, count)
    pairs, _ = sparse_eigenpairs(_graphs_of(laplacian.cpu(), trivial.cpu()), count, wanted=count)
    vectors = pairs.vectors.to(laplacian)
    for image in pairs.residuals.isinf().any(-1).nonzero().flatten().tolist():
        i = slice(image, image + 1)
        vectors[i] = fallback(laplacian[i], trivial[i], count)
    return vectors


def _graphs_of(laplacian: Float[Tensor, "b l l"], trivial: Float[Tensor, "b l"]) -> Graphs:
    """Graphs with these Laplacians: W_ij = −L_ij t_i t_j, whose degrees are t_i²."""
    images, tokens, _ = laplacian.shape
    weights = -laplacian * trivial[:, :, None] * trivial[:, None, :]
    weights.diagonal(dim1=-2, dim2=-1).zero_()
    present = weights != 0
    ends = present.sum(-1).flatten().cumsum(0).view(images, tokens)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1, -1]])[:, None]
    every = torch.arange(tokens, dtype=torch.int32).repeat(images, 1)
    return Graphs(
        nodes=torch.full((images,), tokens),
        offsets=torch.cat([starts, ends], dim=1),
        owner=every,
        sizes=torch.ones_like(every),
        columns=present.nonzero()[:, 2].int(),
        weights=weights[present].double(),
    )
