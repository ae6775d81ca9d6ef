"""The affinity graph of the tokens of an image, and its symmetric normalized Laplacian."""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform
from torch import Tensor

from spectral_vmamba.ops.spectral.rules import DEFAULT_RULES, DistanceScale, Edges, GraphRules

# Squared distances within this share of σ² of each other count as equal: far above float64 rounding, far below content.
TIE = 1e-10
# Tokens this near, relative to their lengths, are equal: the remainder of ‖a‖² + ‖b‖² − 2a·b is rounding.
SAME = 1e-12
# The smallest weight of an edge (that of a distance of 5.3 σ). The distance of one odd patch in an even image is
# d ≈ n σ / 2, and exp(−d²/2σ²) underflows to 0: the graph would be disconnected again.
WEAKEST_EDGE = 1e-6


def affinity(
    features: Float[Tensor, "b l c"],
    neighbors: int | None,
    sizes: Int[Tensor, "l"] | None = None,
    rules: GraphRules = DEFAULT_RULES,
) -> Float[Tensor, "b l l"]:
    """W_ij = exp(−‖f_i−f_j‖² / 2σ²) on the edges, 0 elsewhere and on the diagonal.

    σ is the mean distance within the image. There is an edge if i is among the `neighbors` nearest tokens of j or the
    other way round, including all tokens as near as the last of these (a choice among equals would depend on the
    numbering of the tokens); `None` connects every pair. A disconnected graph also gets the edges of the minimum
    spanning tree of the distances. O(l²c).

    `sizes`: how many equal tokens of the image each of the l tokens stands for; one each by default.
    """
    squared = squared_distances(features, sizes)
    σ = _mean_distance(squared, sizes, rules.distance_scale)
    others = neighbors if neighbors is None or not rules.self_neighbor else neighbors - 1
    edges = nearest_neighbor_edges(squared, σ, others, sizes, rules.edges)
    if rules.components == "bridged":
        edges = edges | _missing_spanning_edges(edges, squared, σ)
    scale = torch.where(σ > 0, 2 * σ**2, 1.0)
    weights = torch.where(edges, torch.exp(-squared / scale).clamp_min(WEAKEST_EDGE), 0.0)
    return weights + _diagonal(weights) if rules.self_neighbor else weights


def _mean_distance(squared: Tensor, sizes: Tensor | None, over: DistanceScale) -> Float[Tensor, "b 1 1"]:
    if over == "batch":
        return squared.sqrt().mean().expand(len(squared), 1, 1)
    tokens = squared.shape[-1] if sizes is None else int(sizes.sum())
    lengths = squared.sqrt() if sizes is None else squared.sqrt() * sizes[:, None] * sizes
    return lengths.sum((-2, -1), keepdim=True) / max(tokens * (tokens - 1), 1)


def squared_distances(features: Float[Tensor, "b l c"], sizes: Int[Tensor, "l"] | None = None) -> Tensor:
    """(b, l, l) ‖f_i−f_j‖² by one matrix product. Features are centered first, to reduce cancellation."""
    if sizes is None:
        mean = features.mean(1, keepdim=True)
    else:
        mean = (features * sizes[:, None]).sum(1, keepdim=True) / sizes.sum()
    centered = features - mean
    norms = centered.square().sum(-1)
    squared = norms[:, :, None] + norms[:, None, :] - 2 * centered @ centered.mT
    squared = (squared + squared.mT) / 2
    rounding = SAME * (norms[:, :, None] + norms[:, None, :])
    return squared.masked_fill((squared <= rounding) | _diagonal(squared), 0.0)


def nearest_neighbor_edges(
    squared: Float[Tensor, "b l l"],
    σ: Float[Tensor, "b 1 1"],
    neighbors: int | None,
    sizes: Tensor | None = None,
    rule: Edges = "either",
) -> Bool[Tensor, "b l l"]:
    tokens = squared.shape[-1] if sizes is None else int(sizes.sum())
    others = ~_diagonal(squared).expand(squared.shape)
    if neighbors is None or neighbors >= tokens - 1:
        return others
    if neighbors == 0:
        return torch.zeros_like(others)
    near = squared <= _kth_nearest(squared.masked_fill(~others, torch.inf), neighbors, sizes) + TIE * σ**2
    return (near | near.mT if rule == "either" else near & near.mT) & others


def _kth_nearest(squared: Float[Tensor, "b l l"], k: int, sizes: Int[Tensor, "l"] | None) -> Float[Tensor, "b l 1"]:
    """The distance to the k-th nearest token; the other tokens that a row stands for are at distance 0."""
    if sizes is None:
        return squared.kthvalue(k, dim=-1, keepdim=True).values
    nearest, index = squared.topk(min(k, len(sizes)), dim=-1, largest=False)
    nearer = (sizes - 1)[:, None] + F.pad(sizes[index].cumsum(-1), (1, -1))
    return torch.where(nearer < k, nearest, 0.0).amax(-1, keepdim=True)


def _missing_spanning_edges(edges: Tensor, squared: Tensor, σ: Tensor) -> Bool[Tensor, "b l l"]:
    missing = torch.zeros_like(edges)
    for image, adjacency in enumerate(edges.cpu().numpy()):
        if connected_components(adjacency, directed=False, return_labels=False) > 1:
            tolerance = TIE * float(σ[image]) ** 2
            missing[image] = torch.from_numpy(spanning_edges(squared[image].cpu().numpy(), tolerance))
    return missing


def spanning_edges(distances: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
    """Every edge that belongs to *some* minimum spanning tree, so that the numbering of the tokens does not matter.

    An edge does iff it is no longer than the minimax path between its ends, which is the single-linkage (cophenetic)
    distance. Only the order of the distances matters, so squared distances work as well.
    """
    condensed = squareform(distances, checks=False)
    minimax = np.asarray(cophenet(linkage(condensed, "single")))
    return squareform(condensed <= minimax + tolerance)


def normalized_laplacian(
    affinity: Float[Tensor, "b l l"],
) -> tuple[Float[Tensor, "b l l"], Float[Tensor, "b l"]]:
    """L = I − D^(−1/2) W D^(−1/2), and its known null vector, D^(1/2)·1 scaled to length one."""
    degree = affinity.sum(-1)
    root = degree.sqrt()
    inverse_root = torch.where(degree > 0, 1 / root, 0.0)
    identity = torch.eye(affinity.shape[-1], dtype=affinity.dtype, device=affinity.device)
    laplacian = identity - inverse_root[:, :, None] * affinity * inverse_root[:, None, :]
    norm = root.norm(dim=-1, keepdim=True)
    return laplacian, root / torch.where(norm > 0, norm, 1.0)


def _diagonal(square: Float[Tensor, "b l l"]) -> Bool[Tensor, "l l"]:
    return torch.eye(square.shape[-1], dtype=torch.bool, device=square.device)
