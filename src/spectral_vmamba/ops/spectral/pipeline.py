"""From token features to a Traversal: graph → Laplacian → eigenvectors → canonical signs → ranks → orders."""

from collections.abc import Callable
from dataclasses import astuple
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.ranks import tied_ranks
from spectral_vmamba.ops.spectral.canonical import (
    EQUAL_ENTRIES,
    canonical_eigenspaces,
    canonical_vectors,
    eigenspace_end,
)
from spectral_vmamba.ops.spectral.content import content_ranks
from spectral_vmamba.ops.spectral.contraction import NodeGraph, contract, has_equal_tokens, node_graph
from spectral_vmamba.ops.spectral.eigenpairs import Eigenpairs
from spectral_vmamba.ops.spectral.eigenspaces import Eigenspace, contracted_eigenspaces, group_eigenspaces
from spectral_vmamba.ops.spectral.graph import affinity, normalized_laplacian
from spectral_vmamba.ops.spectral.rules import DEFAULT_RULES, GraphRules
from spectral_vmamba.ops.spectral.rules_pipeline import ranks_by_rules
from spectral_vmamba.ops.spectral.solvers import Solver, choose_methods, smallest_eigenpairs
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
    rules: GraphRules = DEFAULT_RULES,
) -> Traversal:
    """The paper's STS orders of a batch of token features on `grid`.

    `neighbors=None` connects every pair of tokens. Computed without gradient, in float64 for features of any dtype.
    `rules` other than the default ones are computed by the dense solver, whatever `solver` says.

    >>> import torch
    >>> from spectral_vmamba import spectral_traversal
    >>> from spectral_vmamba.ops.grid import Grid
    >>> spectral_traversal(torch.rand(2, 16, 8), Grid(4, 4), eigenvectors=2).orders.shape  # up and down each
    torch.Size([2, 4, 16])
    """
    options = (eigenvectors, -1 if neighbors is None else neighbors, solver, *astuple(rules))
    ranks, content = spectral_ranks_op(features.detach(), *astuple(grid), *options)
    return Traversal.from_ranks(grid, ranks, content)


def spectral_ranks(
    features: Float[Tensor, "b l c"],
    grid: Grid,
    eigenvectors: int,
    neighbors: int | None,
    solver: Solver = "auto",
    rules: GraphRules = DEFAULT_RULES,
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
    if rules != DEFAULT_RULES:
        squared_radii = grid.squared_radii().to(features.device)
        ranks = ranks_by_rules(features, content, node_ranks, squared_radii, eigenvectors, neighbors, rules)
        return ranks.to(device), node_ranks.to(device)
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
    node_order = node_ranks.argsort(dim=-1, stable=True)
    solution = _solve(features, content, neighbors, count, solver)
    solved, pairs = solution.images, solution.pairs
    evidence = (solution.trivial, content[solved], squared_radii, node_order[solved])
    vectors[solved, :count] = canonical_vectors(pairs.values, pairs.vectors, *evidence, count)
    # An eigenspace that may extend past the computed pairs must be complete.
    complete = (eigenspace_end(pairs.values, count) < pairs.values.shape[-1]) | (pairs.values.shape[-1] == tokens - 1)
    for image in sorted(set(range(images)) - set(solved[complete].tolist())):
        spaces, trivial = solution.eigenspaces(image)
        evidence = (trivial, content[image].cpu(), squared_radii.cpu(), node_order[image].cpu())
        vectors[image, :count] = canonical_eigenspaces(spaces, *evidence, count).to(vectors)
    return vectors


class _Solution(NamedTuple):
    """The `count` smallest pairs and a few more of some images, and how to get complete eigenspaces of any image."""

    images: Int[Tensor, "s"]
    pairs: Eigenpairs
    trivial: Float[Tensor, "s l"]
    eigenspaces: Callable[[int], tuple[list[Eigenspace], Float[Tensor, "l"]]]


def _solve(features: Tensor, content: Tensor, neighbors: int | None, count: int, solver: Solver) -> _Solution:
    images, tokens, _ = features.shape
    more = min(count + GUARD, tokens - 1)
    every = torch.arange(images, device=features.device)
    first, *_ = choose_methods(tokens, neighbors, count, features.device, solver)
    if neighbors is not None and first == "sparse_native":
        graphs = neighbor_graphs(features, neighbors)
        pairs, trivial = sparse_eigenpairs(graphs, more, count)
        solved = every[pairs.residuals.isfinite().all(-1)]
        pairs = Eigenpairs(*(part[solved] for part in pairs))
        return _Solution(solved, pairs, trivial[solved], lambda image: _contracted(graphs.node_graph(image), count))

    def complete(image: int):
        if solver == "dense":
            laplacian, trivial = normalized_laplacian(affinity(features[image, None], neighbors))
            pairs = smallest_eigenpairs(laplacian, trivial, tokens - 1, "dense")
            return group_eigenspaces(pairs.values[0].cpu(), pairs.vectors[0].cpu(), count), trivial[0].cpu()
        return _contracted(node_graph(features[image].cpu(), neighbors), count)

    solved = every
    if solver != "dense" and features.device.type == "cpu":
        equal = [has_equal_tokens(*image) for image in zip(features, content, strict=True)]
        solved = every[~torch.tensor(equal)]
    laplacian, trivial = normalized_laplacian(affinity(features[solved], neighbors))
    return _Solution(solved, smallest_eigenpairs(laplacian, trivial, more, solver), trivial, complete)


def _contracted(graph: NodeGraph, count: int) -> tuple[list[Eigenspace], Tensor]:
    contraction = contract(graph)
    return contracted_eigenspaces(contraction, count), contraction.expand(contraction.trivial)


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
    " int neighbors, str solver, str edges, str components, bool self_neighbor, str distance_scale, str sign_rule)"
    " -> (Tensor, Tensor)",
)
def spectral_ranks_op(features, rows, columns, domain, level, diameter, eigenvectors, neighbors, solver, *rules):
    """`spectral_ranks` as one node for compilers and exporters. Takes the fields of the grid and of the rules;
    −1 neighbors: None."""
    grid = Grid(rows, columns, domain, level, diameter)
    return spectral_ranks(
        features, grid, eigenvectors, None if neighbors < 0 else neighbors, solver, GraphRules(*rules)
    )


@spectral_ranks_op.register_fake
def _(features, rows, columns, domain, level, diameter, eigenvectors, neighbors, solver, *rules):
    images, tokens, _ = features.shape
    ranks = features.new_empty((images, eigenvectors, tokens), dtype=torch.int64)
    return ranks, features.new_empty((images, tokens), dtype=torch.int64)
