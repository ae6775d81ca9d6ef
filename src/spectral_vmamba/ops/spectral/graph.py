"""The affinity graph of an image's tokens."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform
from torch import Tensor

# Squared distances within this share of σ² of each other count as equal: far above float64 rounding, far below content.
TIE = 1e-10
# Tokens this near, relative to their lengths, are the same: what is left of ‖a‖² + ‖b‖² − 2a·b is rounding.
SAME = 1e-12
# An edge that is there weighs at least this much (its distance is 5.3 σ then). One odd patch in an even image has
# d ≈ n σ / 2, and exp(−d²/2σ²) underflows to 0: the graph would fall apart again.
WEAKEST_EDGE = 1e-6


def affinity(features: Float[Tensor, "b l c"], neighbors: int | None) -> Float[Tensor, "b l l"]:
    """W_ij = exp(−‖f_i−f_j‖² / 2σ²) on the edges, 0 elsewhere and on the diagonal.

    σ is the image's own mean distance. Edges: i is among the `neighbors` nearest of j or the other way round, everyone
    as near as the last of them included (a choice among equals would depend on the tokens' numbering); `None` is every
    pair. A graph in several pieces also gets the minimum spanning tree of the distances. O(l²c).
    """
    squared = squared_distances(features)
    tokens = squared.shape[-1]
    σ = squared.sqrt().sum((-2, -1), keepdim=True) / max(tokens * (tokens - 1), 1)
    edges = nearest_neighbor_edges(squared, σ, neighbors)
    edges = edges | _missing_spanning_edges(edges, squared, σ)
    scale = torch.where(σ > 0, 2 * σ**2, 1.0)
    return torch.where(edges, torch.exp(-squared / scale).clamp_min(WEAKEST_EDGE), 0.0)


def squared_distances(features: Float[Tensor, "b l c"]) -> Float[Tensor, "b l l"]:
    """‖f_i−f_j‖² through one matrix product. Features are centered first, to lose little to cancellation."""
    centered = features - features.mean(1, keepdim=True)
    norms = centered.square().sum(-1)
    squared = norms[:, :, None] + norms[:, None, :] - 2 * centered @ centered.mT
    squared = (squared + squared.mT) / 2
    rounding = SAME * (norms[:, :, None] + norms[:, None, :])
    return squared.masked_fill((squared <= rounding) | _diagonal(squared), 0.0)


def nearest_neighbor_edges(
    squared: Float[Tensor, "b l l"], σ: Float[Tensor, "b 1 1"], neighbors: int | None
) -> Bool[Tensor, "b l l"]:
    tokens = squared.shape[-1]
    others = ~_diagonal(squared).expand(squared.shape)
    if neighbors is None or neighbors >= tokens - 1:
        return others
    farthest = squared.masked_fill(~others, torch.inf).kthvalue(neighbors, dim=-1, keepdim=True).values
    near = squared <= farthest + TIE * σ**2
    return (near | near.mT) & others


def _missing_spanning_edges(edges: Tensor, squared: Tensor, σ: Tensor) -> Bool[Tensor, "b l l"]:
    missing = torch.zeros_like(edges)
    for image, adjacency in enumerate(edges.cpu().numpy()):
        if connected_components(adjacency, directed=False, return_labels=False) > 1:
            tolerance = TIE * float(σ[image]) ** 2
            missing[image] = torch.from_numpy(spanning_edges(squared[image].cpu().numpy(), tolerance))
    return missing


def spanning_edges(distances: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
    """Every edge that belongs to *some* minimum spanning tree, hence independent of the tokens' numbering.

    An edge does iff no detour has only shorter edges: iff it is no longer than the minimax path between its ends, which
    is the single-linkage (cophenetic) distance. Monotone in the distances, so squared ones serve as well.
    """
    condensed = squareform(distances, checks=False)
    minimax = np.asarray(cophenet(linkage(condensed, "single")))
    return squareform(condensed <= minimax + tolerance)


def _diagonal(square: Float[Tensor, "b l l"]) -> Bool[Tensor, "l l"]:
    return torch.eye(square.shape[-1], dtype=torch.bool, device=square.device)
