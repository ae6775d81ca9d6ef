"""Rank tokens by content: the order that breaks ties and, as a last resort, decides signs."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.ranks import hash_ranks, tied_ranks

# Lengths of feature vectors within this share of the longest are equal.
EQUAL = 1e-12
# More than the sum of four hashes of 20 bits.
_ABOVE_SUMS = 2**23


def content_ranks(content: Float[Tensor, "b l"], grid: Grid) -> Int[Tensor, "b l"]:
    """Rank tokens by content, then by distance from the center, then by their surroundings.

    Patches of a flat sky are equal in content. Color refinement (Weisfeiler-Leman) on the grid separates those at one
    distance from the center: the new rank of a token follows from its own rank and the multiset of its four neighbors'
    ranks, repeated until nothing changes. Every step commutes with quarter turns of the grid and uses integers only.
    Tokens that stay equal are mapped to each other by a symmetry of the image.
    """
    squared_radii, cells = grid.squared_radii().to(content.device), grid.cells().to(content.device)
    by_content = tied_ranks(content, EQUAL * content.amax(-1, keepdim=True))
    ranks = tied_ranks(by_content * (int(squared_radii.max()) + 1) + squared_radii)
    distinct = _count_distinct(ranks)
    if distinct == ranks.numel():
        return ranks
    hashes = hash_ranks(torch.arange(ranks.shape[-1], device=content.device))
    neighbors = _neighbor_tokens(cells, grid.height, grid.width)
    while distinct < ranks.numel():
        surroundings = F.pad(hashes[ranks], (0, 1))[:, neighbors].sum(-1)
        ranks = tied_ranks(ranks * _ABOVE_SUMS + surroundings)
        before, distinct = distinct, _count_distinct(ranks)
        if distinct == before:
            break
    return ranks


def _count_distinct(ranks: Int[Tensor, "b l"]) -> int:
    return int((ranks.amax(-1) + 1).sum())


def _neighbor_tokens(cells: Int[Tensor, "l"], height: int, width: int) -> Int[Tensor, "l 4"]:
    """The tokens above, below, left and right of each token; l, one past the last token, stands for missing ones."""
    tokens = len(cells)
    numbers = cells.new_full((height * width,), tokens).index_copy(0, cells, torch.arange(tokens, device=cells.device))
    padded = F.pad(numbers.view(height, width), (1, 1, 1, 1), value=tokens)
    around = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
    return torch.stack([part.flatten()[cells] for part in around], dim=-1)
