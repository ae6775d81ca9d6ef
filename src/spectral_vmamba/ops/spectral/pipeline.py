"""From token features to a Traversal: graph → Laplacian → eigenvectors → canonical signs → ranks → orders."""

from dataclasses import astuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.ranks import tied_ranks
from spectral_vmamba.ops.spectral.canonical import EQUAL_ENTRIES, canonical_vectors, eigenspace_end
from spectral_vmamba.ops.spectral.content import content_ranks
from spectral_vmamba.ops.spectral.eigenpairs import Eigenpairs
from spectral_vmamba.ops.spectral.graph import affinity, normalized_laplacian
from spectral_vmamba.ops.spectral.solvers import Solver, choose_methods, run_methods, smallest_eigenpairs
from spectral_vmamba.ops.spectral.spectral_native import GUARD, neighbor_graphs, sparse_eigenpairs
from spectral_vmamba.ops.traversal import Traversal

# Dense matrices of a batch are processed in groups of at most this many entries, to bound memory.
LARGEST_GROUP = 2**24


def spectral_traversal(
    features: Float[Tensor, "b l c"],
    grid: Grid,
    eigenvectors: int = 4,
    neighbors: int | None = 5,
    solver: Solver = "auto",
) -> Traversal:
    """The paper's STS orders of a batch of token features on `grid`.

    `neighbors=None` connects every pair of tokens. Computed without gradient, in float64 for features of any dtype.

    >>> import torch
    >>> from spectral_vmamba import spectral_traversal
    >>> from spectral_vmamba.ops.grid import Grid
    >>> spectral_traversal(torch.rand(2, 16, 8), Grid(4, 4), eigenvectors=2).orders.shape  # up and down each
    torch.Size([2, 4, 16])
    """
    options = (eigenvectors, -1 if neighbors is None else neighbors, solver)
    ranks, content = spectral_ranks_op(features.detach(), *astuple(grid), *options)
    return Traversal.from_ranks(grid, ranks, content)


def spectral_ranks(
    features: Float[Tensor, "b l c"],
    grid: Grid,
    eigenvectors: int,
    neighbors: int | None,
    solver: Solver = "auto",
) -> tuple[Int[Tensor, "b m l"], Int[Tensor, "b l"]]:
    """The rank of each token along each eigenvector, and its rank by content (first of all the length of its features).

    If a graph has fewer non-trivial eigenvectors than requested, every token has rank 0 along the missing ones; their
    orders then follow content and distance from the center.
    """
    device = features.device
    if device.type == "mps":  # has no float64
        features = features.cpu()
    features = features.double()
    content = features.norm(dim=-1)
    _check(features, content, grid, eigenvectors, neighbors)
    node_ranks = content_ranks(content, grid)
    vectors = torch.cat(
        [
            _canonical_eigenvectors(*group, grid.squared_radii().to(features.device), eigenvectors, neighbors, solver)
            for group in _split_batch(features, content, node_ranks, eigenvectors, neighbors, solver)
        ]
    )
    return tied_ranks(vectors, EQUAL_ENTRIES).to(device), node_ranks.to(device)


def _split_batch(features, content, node_ranks, eigenvectors, neighbors, solver):
    """Groups of images whose l × l matrices fit into LARGEST_GROUP; the native solver needs no such matrices."""
    images, tokens, _ = features.shape
    methods = choose_methods(tokens, neighbors, min(eigenvectors, tokens - 1), features.device, solver)
    size = max(images, 1) if methods[0] == "sparse_native" else max(LARGEST_GROUP // tokens**2, 1)
    return zip(features.split(size), content.split(size), node_ranks.split(size), strict=True)


def _canonical_eigenvectors(features, content, node_ranks, squared_radii, wanted, neighbors, solver) -> Tensor:
    images, tokens, _ = features.shape
    count = min(wanted, tokens - 1)
    vectors = features.new_zeros(images, wanted, tokens)
    if images == 0 or count == 0:
        return vectors
    pairs, trivial = _eigenpairs(features, neighbors, count, solver)
    node_order = node_ranks.argsort(dim=-1, stable=True)

    def canonical(pairs: Eigenpairs, i: slice) -> Tensor:
        evidence = (trivial[i], content[i], squared_radii, node_order[i])
        return canonical_vectors(pairs.values, pairs.vectors, *evidence, count)

    vectors[:, :count] = canonical(pairs, slice(None))
    # An eigenspace that may extend past the computed pairs must be complete: compute all pairs by the dense solver.
    if pairs.values.shape[-1] < tokens - 1:
        cut = eigenspace_end(pairs.values, count) == pairs.values.shape[-1]
        for image in cut.nonzero().flatten().tolist():
            i = slice(image, image + 1)
            laplacian, null = normalized_laplacian(affinity(features[i], neighbors))
            vectors[i, :count] = canonical(smallest_eigenpairs(laplacian, null, tokens - 1, "dense"), i)
    return vectors


def _eigenpairs(features: Tensor, neighbors: int | None, count: int, solver: Solver) -> tuple[Eigenpairs, Tensor]:
    """`count` pairs and a few more, and the trivial vectors."""
    tokens = features.shape[1]
    more = min(count + GUARD, tokens - 1)
    first, *others = choose_methods(tokens, neighbors, count, features.device, solver)
    if neighbors is None or first != "sparse_native":
        laplacian, trivial = normalized_laplacian(affinity(features, neighbors))
        return smallest_eigenpairs(laplacian, trivial, more, solver), trivial
    pairs, trivial = sparse_eigenpairs(neighbor_graphs(features, neighbors), more, count)
    for image in pairs.residuals.isinf().any(-1).nonzero().flatten().tolist():
        i = slice(image, image + 1)
        laplacian, trivial[i] = normalized_laplacian(affinity(features[i], neighbors))
        pairs.replace_image(image, run_methods(laplacian, trivial[i], more, tuple(others)))
    return pairs, trivial


def _check(features: Tensor, content: Tensor, grid: Grid, eigenvectors: int, neighbors: int | None) -> None:
    tokens = len(grid.cells())
    if eigenvectors < 1:
        raise ValueError(f"expected at least one eigenvector, got {eigenvectors}")
    if neighbors is not None and neighbors < 1:
        raise ValueError(f"expected at least one neighbor per token, or None for all, got {neighbors}")
    if features.shape[1] == 0 or features.shape[1] != tokens:
        raise ValueError(f"expected features of {tokens} ≥ 1 tokens for this grid, got {tuple(features.shape)}")
    not_finite = content.isfinite().all(1).logical_not().nonzero().flatten().tolist()
    if not_finite:
        raise ValueError(
            f"features of image {not_finite[0]} of the batch are not finite ({len(not_finite)} such images)"
        )


@torch.library.custom_op(
    "spectral_vmamba::spectral_ranks",
    mutates_args=(),
    schema="(Tensor features, int rows, int columns, str domain, int level, float? diameter, int eigenvectors,"
    " int neighbors, str solver) -> (Tensor, Tensor)",
)
def spectral_ranks_op(features, rows, columns, domain, level, diameter, eigenvectors, neighbors, solver):
    """`spectral_ranks` as one node for compilers and exporters. Takes the fields of the grid; −1 neighbors: None."""
    grid = Grid(rows, columns, domain, level, diameter)
    return spectral_ranks(features, grid, eigenvectors, None if neighbors < 0 else neighbors, solver)


@spectral_ranks_op.register_fake
def _(features, rows, columns, domain, level, diameter, eigenvectors, neighbors, solver):
    images, tokens, _ = features.shape
    ranks = features.new_empty((images, eigenvectors, tokens), dtype=torch.int64)
    return ranks, features.new_empty((images, tokens), dtype=torch.int64)
