"""Ranking tokens by what they show: the order that settles ties and, at the very end, signs."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.ops.ranks import scrambled, tied_ranks

# Lengths of feature vectors within this share of the longest are equal.
EQUAL = 1e-12


def content_ranks(
    content: Float[Tensor, "b l"],
    cells: Int[Tensor, "l"],
    squared_radii: Int[Tensor, "l"],
    height: int,
    width: int,
) -> Int[Tensor, "b l"]:
    """Tokens by content; equal ones by distance from the center; still equal ones by what surrounds them.

    Patches of a flat sky are equal in content. Those at one distance from the center are told apart by color
    refinement (Weisfeiler-Leman) on the grid: a token's new rank follows from its own and the multiset of its four
    neighbors', round after round, until nothing changes. Every step commutes with turning the grid, and all is integer
    arithmetic: what stays equal are twins by a symmetry of the image.
    """
    by_content = tied_ranks(content, EQUAL * content.amax(-1, keepdim=True))
    ranks = tied_ranks(by_content * (int(squared_radii.max()) + 1) + squared_radii)
    distinct = _distinct(ranks)
    while distinct < ranks.numel():
        surroundings = tied_ranks(_neighbor_sums(scrambled(ranks), cells, height, width))
        ranks = tied_ranks(ranks * ranks.shape[-1] + surroundings)
        before, distinct = distinct, _distinct(ranks)
        if distinct == before:
            break
    return ranks


def _distinct(ranks: Int[Tensor, "b l"]) -> int:
    return int((ranks.amax(-1) + 1).sum())


def _neighbor_sums(values: Int[Tensor, "b l"], cells: Tensor, height: int, width: int) -> Int[Tensor, "b l"]:
    grid = values.new_zeros(values.shape[0], height * width).index_copy(1, cells, values)
    padded = F.pad(grid.view(-1, height, width), (1, 1, 1, 1))
    sums = padded[:, :-2, 1:-1] + padded[:, 2:, 1:-1] + padded[:, 1:-1, :-2] + padded[:, 1:-1, 2:]
    return sums.flatten(1)[:, cells]
