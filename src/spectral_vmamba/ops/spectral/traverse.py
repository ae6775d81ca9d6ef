"""From token features to a Traversal: graph → Laplacian → eigenvectors → canonical signs → ranks → orders."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.native import notice_missing
from spectral_vmamba.ops.ranks import tied_ranks
from spectral_vmamba.ops.spectral.canonical import EQUAL_ENTRIES, canonical_vectors, eigenspace_end
from spectral_vmamba.ops.spectral.content import content_ranks
from spectral_vmamba.ops.spectral.eigenpairs import Eigenpairs
from spectral_vmamba.ops.spectral.eigensolvers import Solver, smallest_eigenpairs
from spectral_vmamba.ops.spectral.graph import affinity
from spectral_vmamba.ops.spectral.laplacian import normalized_laplacian
from spectral_vmamba.ops.spectral.sparse import GUARD, native_takes, neighbor_graphs, sparse_eigenpairs
from spectral_vmamba.ops.traversal import Traversal

# Dense matrices of a batch are handled in groups of at most this many entries, to bound memory.
LARGEST_GROUP = 2**24


def spectral_traversal(
    features: Float[Tensor, "b l c"],
    grid: Grid,
    eigenvectors: int = 4,
    neighbors: int | None = 5,
    solver: Solver = "auto",
) -> Traversal:
    """The paper's STS orders of a batch of feature maps. No gradient; float64 whatever the features are."""
    where = (grid.cells().to(features.device), grid.height, grid.width)
    options = (eigenvectors, -1 if neighbors is None else neighbors, solver)
    ranks, content = spectral_ranks_op(features.detach(), *where, *options)
    return Traversal.from_ranks(grid, ranks, content)


def spectral_ranks(
    features: Float[Tensor, "b l c"],
    cells: Int[Tensor, "l"],
    height: int,
    width: int,
    eigenvectors: int,
    neighbors: int | None,
    solver: Solver = "auto",
) -> tuple[Int[Tensor, "b m l"], Int[Tensor, "b l"]]:
    """Each token's rank along each eigenvector, and its rank by content (first of all the length of its features).

    A graph with fewer non-trivial eigenvectors than asked for gives rank 0 to every token along the missing ones: the
    order is then by content and distance from the center.
    """
    device = features.device
    if device.type == "mps":  # has no float64
        features, cells = features.cpu(), cells.cpu()
    features = features.double()
    content = features.norm(dim=-1)
    _check(features, content, cells, eigenvectors, neighbors)
    squared_radii = (2 * (cells // width) - (height - 1)) ** 2 + (2 * (cells % width) - (width - 1)) ** 2
    node_ranks = content_ranks(content, cells, squared_radii, height, width)
    dense = not _goes_native(features, neighbors, min(eigenvectors, features.shape[1] - 1), solver)
    group = max(LARGEST_GROUP // features.shape[1] ** 2, 1) if dense else max(len(features), 1)
    parts = zip(features.split(group), content.split(group), node_ranks.split(group), strict=True)
    vectors = torch.cat(
        [_canonical_eigenvectors(*part, squared_radii, eigenvectors, neighbors, solver) for part in parts]
    )
    return tied_ranks(vectors, EQUAL_ENTRIES).to(device), node_ranks.to(device)


def _canonical_eigenvectors(features, content, node_ranks, squared_radii, wanted, neighbors, solver) -> Tensor:
    images, tokens, _ = features.shape
    count = min(wanted, tokens - 1)
    vectors = features.new_zeros(images, wanted, tokens)
    if images == 0 or count == 0:
        return vectors
    pairs, trivial = _eigenpairs(features, neighbors, count, solver)
    node_order = node_ranks.argsort(dim=-1, stable=True)

    def settle(pairs: Eigenpairs, i: slice) -> Tensor:
        probed = (trivial[i], content[i], squared_radii, node_order[i])
        return canonical_vectors(pairs.values, pairs.vectors, *probed, count)

    vectors[:, :count] = settle(pairs, slice(None))
    # An eigenspace that may go on past the computed pairs is needed whole: all of it from the dense solver.
    if pairs.values.shape[-1] < tokens - 1:
        cut = eigenspace_end(pairs.values, count) == pairs.values.shape[-1]
        for image in cut.nonzero().flatten().tolist():
            i = slice(image, image + 1)
            laplacian, null = normalized_laplacian(affinity(features[i], neighbors))
            vectors[i, :count] = settle(smallest_eigenpairs(laplacian, null, tokens - 1, "dense"), i)
    return vectors


def _eigenpairs(features: Tensor, neighbors: int | None, count: int, solver: Solver) -> tuple[Eigenpairs, Tensor]:
    """`count` pairs and a few more, and the trivial vectors; the native way through sparse graphs where it serves."""
    tokens = features.shape[1]
    more = min(count + GUARD, tokens - 1)
    if neighbors is None or not _goes_native(features, neighbors, count, solver):
        laplacian, trivial = normalized_laplacian(affinity(features, neighbors))
        return smallest_eigenpairs(laplacian, trivial, more, solver), trivial
    pairs, trivial = sparse_eigenpairs(neighbor_graphs(features, neighbors), more, count)
    for image in pairs.residuals.isinf().any(-1).nonzero().flatten().tolist():
        i = slice(image, image + 1)
        laplacian, trivial[i] = normalized_laplacian(affinity(features[i], neighbors))
        for mine, other in zip(pairs, smallest_eigenpairs(laplacian, trivial[i], more, "auto"), strict=True):
            mine[i] = other
    return pairs, trivial


def _goes_native(features: Tensor, neighbors: int | None, count: int, solver: Solver) -> bool:
    """Sparse graphs on the CPU do; denser ones have eigenvalues so close together that a dense solver is faster."""
    tokens = features.shape[1]
    sparse = neighbors is not None and neighbors < tokens // 4
    if solver not in ("auto", "native") or features.device.type != "cpu" or not sparse:
        return False
    if solver == "auto":
        notice_missing()
    return native_takes(tokens, count)


def _check(features: Tensor, content: Tensor, cells: Tensor, eigenvectors: int, neighbors: int | None) -> None:
    if eigenvectors < 1:
        raise ValueError(f"expected at least one eigenvector, got {eigenvectors}")
    if neighbors is not None and neighbors < 1:
        raise ValueError(f"expected at least one neighbor per token, or None for all, got {neighbors}")
    if features.shape[1] == 0 or features.shape[1] != len(cells):
        raise ValueError(f"expected features of {len(cells)} ≥ 1 tokens for this grid, got {tuple(features.shape)}")
    broken = content.isfinite().all(1).logical_not().nonzero().flatten().tolist()
    if broken:
        raise ValueError(f"features of image {broken[0]} of the batch are not finite ({len(broken)} such images)")


@torch.library.custom_op(
    "spectral_vmamba::spectral_ranks",
    mutates_args=(),
    schema="(Tensor features, Tensor cells, int height, int width, int eigenvectors, int neighbors, str solver)"
    " -> (Tensor, Tensor)",
)
def spectral_ranks_op(features, cells, height, width, eigenvectors, neighbors, solver):
    """`spectral_ranks` as one node for compilers and exporters (`neighbors` −1 for None)."""
    every = None if neighbors < 0 else neighbors
    ranks, content = spectral_ranks(features, cells, height, width, eigenvectors, every, solver)
    return ranks, content


@spectral_ranks_op.register_fake
def _(features, cells, height, width, eigenvectors, neighbors, solver):
    images, tokens, _ = features.shape
    ranks = features.new_empty((images, eigenvectors, tokens), dtype=torch.int64)
    return ranks, features.new_empty((images, tokens), dtype=torch.int64)
