"""Chebyshev-filtered subspace iteration: batched, matrix products and small factorizations only, for accelerators."""

import torch
from jaxtyping import Float
from torch import Tensor

FILTER_DEGREE = 16
LARGEST_ROUNDS = 60
# The cut for a block inside one eigenspace (a graph of many components), whose largest Ritz value is 0.
SMALLEST_CUT, CUT_ABOVE_ONE_EIGENSPACE = 1e-9, 1e-2
# Rounds stop once every wanted residual is this small. A vector's error is its residual over the gap to the next value.
TARGET_RESIDUAL = 1e-13


def subspace_eigenvectors(
    laplacian: Float[Tensor, "b l l"], trivial: Float[Tensor, "b l"], count: int
) -> Float[Tensor, "b m l"]:
    """Iterate a random block larger than `count`. It has a component along every wanted eigenvector, so none is missed.

    Each round damps the spectrum above the block's largest Ritz value by a Chebyshev polynomial, orthonormalizes the
    block, and rotates it to its Ritz vectors.
    """
    images, tokens = trivial.shape
    width = min(2 * count + 8, tokens - 1)
    if images == 0 or count == 0:
        return laplacian.new_zeros(images, count, tokens)
    generator = torch.Generator().manual_seed(0)
    block = torch.randn(tokens, width, generator=generator, dtype=laplacian.dtype).to(laplacian.device)
    block = block.expand(images, -1, -1)
    null = trivial[:, :, None]
    best = laplacian.new_full((), torch.inf)
    ritz = None
    for _ in range(LARGEST_ROUNDS):
        if ritz is not None and width < tokens - 1:
            block = _chebyshev_filter(laplacian, block, ritz[:, -1, None, None])
        block = _orthonormal(block - null @ (null.mT @ block))
        ritz, rotation = torch.linalg.eigh(block.mT @ laplacian @ block)
        block = block @ rotation
        wanted = block[..., :count]
        residual = (laplacian @ wanted - wanted * ritz[:, None, :count]).norm(dim=1).max()
        if residual <= TARGET_RESIDUAL or (residual <= 100 * TARGET_RESIDUAL and residual >= best):
            break
        best = torch.minimum(best, residual)
    return block[..., :count].mT.contiguous()


def _orthonormal(block: Float[Tensor, "b l p"]) -> Float[Tensor, "b l p"]:
    """Q of a QR factorization, twice: the filter leaves columns nearly parallel."""
    return torch.linalg.qr(torch.linalg.qr(block).Q).Q


def _chebyshev_filter(
    laplacian: Tensor, block: Float[Tensor, "b l p"], cut: Float[Tensor, "b 1 1"]
) -> Float[Tensor, "b l p"]:
    """p(L)·block with |p| ≤ 1 on [cut, 2] and p(0) = 1 scaled up below: the scaled three-term recurrence."""
    cut = torch.where(cut > SMALLEST_CUT, cut, CUT_ABOVE_ONE_EIGENSPACE).clamp(max=1.9)
    center, half = (2 + cut) / 2, (2 - cut) / 2
    σ_first = -half / center
    σ = σ_first
    previous, current = block, (laplacian @ block - center * block) * (σ / half)
    for _ in range(FILTER_DEGREE - 1):
        σ_next = 1 / (2 / σ_first - σ)
        following = (laplacian @ current - center * current) * (2 * σ_next / half) - σ * σ_next * previous
        previous, current, σ = current, following, σ_next
    return current
