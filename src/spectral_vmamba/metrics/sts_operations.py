"""Operations of STS, which the FLOP counts of the models leave out: a formula, and what an image took."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.ops.spectral import measure_solver_work, neighbor_graphs

_GUARD = 2
_TRIANGLE = 0.5  # a symmetric product computes half of its entries


@dataclass(frozen=True)
class StsOperations:
    """Multiply-adds for one image."""

    distances: float
    weights: float
    solver: float

    @property
    def total(self) -> float:
        return self.distances + self.weights + self.solver


def count_sts(
    tokens: int, channels: int, edges: int, eigenvectors: int, rounds: float, products: float
) -> StsOperations:
    """The formula for the native kernels; `edges` are the stored entries of the symmetric graph.

    Distances: one product of length c for each pair, and each token's square. Weights: a second, exact distance for
    each edge. Solver, with blocks of b vectors: an entry of the graph costs b; a round costs two orthonormalizations
    (the trivial vector, inner products, triangular product), one projected matrix and two rotations.

    >>> round(count_sts(196, 256, 0, 4, 0, 0).distances / 1e6, 1)  # 196 · 195 / 2 pairs and 196 squares
    4.9
    """
    block = block_width(eigenvectors)
    product = edges * block + 3 * tokens * block
    orthonormalization = 2 * tokens * block + tokens * block**2 * (_TRIANGLE + _TRIANGLE)
    rotation = tokens * block**2 * (_TRIANGLE + 2)
    return StsOperations(
        distances=tokens * (tokens - 1) / 2 * channels + tokens * channels,
        weights=float(edges * channels),
        solver=products * product + rounds * (2 * orthonormalization + rotation),
    )


def block_width(eigenvectors: int) -> int:
    """Vectors that the native solver iterates: a little more than twice the wanted ones (csrc/eigen.cpp)."""
    widths = {2: 8, 4: 12, 6: 16, 8: 20, 14: 32}
    width = next((width for most, width in widths.items() if eigenvectors <= most), None)
    if width is None:
        raise ValueError(f"the native solver computes at most {max(widths)} eigenvectors, got {eigenvectors}")
    return width


def measure_sts_operations(features: Float[Tensor, "1 l c"], neighbors: int, eigenvectors: int) -> StsOperations:
    """The formula with the edges, rounds and products of one image. Requires the native library."""
    graphs = neighbor_graphs(features, neighbors)
    work = measure_solver_work(graphs, eigenvectors + _GUARD, eigenvectors)
    _, tokens, channels = features.shape
    return count_sts(tokens, channels, len(graphs.columns), eigenvectors, float(work.rounds), float(work.products))
