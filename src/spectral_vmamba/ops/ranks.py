"""Dense ranks, and an integer hash that keeps sums of ranks from colliding. Exact on every device."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def tied_ranks(values: Float[Tensor, "*batch l"] | Int[Tensor, "*batch l"], tolerance: float | Tensor = 0) -> Tensor:
    """Ranks 0, 1, 2, … in ascending order; values within the tolerance of the next smaller one share its rank."""
    ascending, order = values.sort(dim=-1, stable=True)
    ranks = F.pad((ascending.diff(dim=-1) > tolerance).cumsum(-1), (1, 0))
    return torch.empty_like(order).scatter(-1, order, ranks)


def hash_ranks(ranks: Int[Tensor, "*batch l"]) -> Int[Tensor, "*batch l"]:
    """A fixed pseudo-random 20-bit number for each rank (xorshift-multiply), so that sums identify multisets."""
    mixed = (ranks + 1) * 0x9E3779B1
    mixed = ((mixed ^ (mixed >> 15)) * 0x85EBCA77) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 13)) * 0xC2B2AE3D) & 0xFFFFFFFF
    return (mixed ^ (mixed >> 16)) >> 12
