"""STS by other rules than this package's (`GraphRules`): dense matrices, one image after the other where it must be."""

import torch
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from spectral_vmamba.ops.ranks import tied_ranks
from spectral_vmamba.ops.spectral.canonical import EQUAL_ENTRIES, canonical_vectors
from spectral_vmamba.ops.spectral.graph import affinity, normalized_laplacian
from spectral_vmamba.ops.spectral.rules import GraphRules, SignRule
from spectral_vmamba.ops.spectral.solvers import smallest_eigenpairs


def ranks_by_rules(
    features: Float[Tensor, "b l c"],
    content: Float[Tensor, "b l"],
    node_ranks: Int[Tensor, "b l"],
    squared_radii: Int[Tensor, "l"],
    eigenvectors: int,
    neighbors: int | None,
    rules: GraphRules,
) -> Int[Tensor, "b m l"]:
    """The rank of each token along each eigenvector; tokens of later pieces have higher ranks."""
    weights = affinity(features, neighbors, rules=rules)
    if rules.components != "piecewise":
        vectors = _vectors(weights, content, node_ranks, squared_radii, eigenvectors, rules.sign_rule)
        return tied_ranks(vectors, EQUAL_ENTRIES)
    ranks = node_ranks.new_zeros(len(features), eigenvectors, features.shape[1])
    for image, matrix in enumerate(weights):
        first = 0
        for piece in _pieces(matrix, node_ranks[image]):
            evidence = (content[image, piece][None], node_ranks[image, piece][None], squared_radii[piece])
            vectors = _vectors(matrix[piece[:, None], piece][None], *evidence, eigenvectors, rules.sign_rule)
            ranks[image, :, piece] = first + tied_ranks(vectors, EQUAL_ENTRIES)[0]
            first += len(piece)
    return ranks


def _vectors(
    weights: Float[Tensor, "b l l"],
    content: Float[Tensor, "b l"],
    node_ranks: Int[Tensor, "b l"],
    squared_radii: Int[Tensor, "l"],
    wanted: int,
    sign_rule: SignRule,
) -> Float[Tensor, "b m l"]:
    """The first eigenvectors with their signs; zeros where a graph has fewer."""
    images, tokens, _ = weights.shape
    vectors = weights.new_zeros(images, wanted, tokens)
    count = min(wanted, tokens - 1)
    if images == 0 or count == 0:
        return vectors
    laplacian, trivial = normalized_laplacian(weights)
    pairs = smallest_eigenpairs(laplacian, trivial, tokens - 1, "dense")
    if sign_rule == "content":
        evidence = (trivial, content, squared_radii, node_ranks.argsort(dim=-1, stable=True))
        vectors[:, :count] = canonical_vectors(pairs.values, pairs.vectors, *evidence, count)
    else:
        chosen = pairs.vectors[:, :count]
        signs = _first_signs(chosen) if sign_rule == "first" else chosen.mean(1, keepdim=True).sign()
        vectors[:, :count] = chosen * signs
    return vectors


def _first_signs(vectors: Float[Tensor, "b m l"]) -> Float[Tensor, "b m 1"]:
    first = (vectors.abs() > EQUAL_ENTRIES).to(torch.uint8).argmax(-1, keepdim=True)
    return torch.where(vectors.gather(-1, first) < 0, -1.0, 1.0).to(vectors)


def _pieces(weights: Float[Tensor, "l l"], node_ranks: Int[Tensor, "l"]) -> list[Int[Tensor, "p"]]:
    """The tokens of each connected piece: the largest piece first, equally large ones by their content."""
    count, labels = connected_components(weights.cpu().numpy() > 0, directed=False)
    owner = torch.from_numpy(labels).to(node_ranks.device)
    pieces = [(owner == piece).nonzero().flatten() for piece in range(count)]
    return sorted(pieces, key=lambda piece: (-len(piece), node_ranks[piece].sort().values.tolist()))
