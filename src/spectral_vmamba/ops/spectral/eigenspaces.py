"""The eigenspaces of the smallest eigenvalues, complete, without a basis of those that have very many dimensions."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from spectral_vmamba.ops.spectral.contraction import Contraction
from spectral_vmamba.ops.spectral.eigenpairs import CLUSTER
from spectral_vmamba.ops.spectral.solvers import DENSE_UP_TO, smallest_eigenpairs
from spectral_vmamba.ops.spectral.spectral_native import GUARD

# If the eigenspace of the last wanted pair is not complete, this many times as many pairs are computed.
GROWTH = 4


@dataclass(frozen=True)
class Differences:
    """All vectors on the tokens of some classes that are orthogonal to the unit vector of each class."""

    contraction: Contraction
    classes: Bool[Tensor, "q"]

    @property
    def dimension(self) -> int:
        return int((self.contraction.tokens[self.classes] - 1).sum())

    def project(self, vectors: Float[Tensor, "p l"]) -> Float[Tensor, "p l"]:
        owner, share = self.contraction.owner, self.contraction.share
        along = vectors.new_zeros(len(vectors), len(self.classes)).index_add(1, owner, vectors * share)
        return torch.where(self.classes[owner], vectors - along[:, owner] * share, 0.0)

    def diagonal(self) -> Float[Tensor, "l"]:
        return torch.where(self.classes[self.contraction.owner], 1 - self.contraction.share**2, 0.0)


@dataclass(frozen=True)
class Eigenspace:
    """The span of orthonormal vectors and, orthogonal to them, of differences."""

    vectors: Float[Tensor, "s l"]
    differences: Differences | None = None

    @property
    def dimension(self) -> int:
        return len(self.vectors) + (0 if self.differences is None else self.differences.dimension)

    def project(self, vectors: Float[Tensor, "p l"]) -> Float[Tensor, "p l"]:
        projected = (vectors @ self.vectors.mT) @ self.vectors
        return projected if self.differences is None else projected + self.differences.project(vectors)

    def only_vector(self) -> Float[Tensor, "l"]:
        """The unit vector, up to its sign, of a space of one dimension."""
        if len(self.vectors):
            return self.vectors[0]
        diagonal = self.diagonal()
        token = torch.zeros_like(diagonal).index_fill(0, diagonal.argmax(), 1.0)
        return self.project(token[None])[0] / diagonal.max().sqrt()

    def diagonal(self) -> Float[Tensor, "l"]:
        """Of the projection: the squared length of the projection of each single token."""
        squares = self.vectors.square().sum(0)
        return squares if self.differences is None else squares + self.differences.diagonal()


def group_eigenspaces(values: Float[Tensor, "c"], vectors: Float[Tensor, "c l"], count: int) -> list[Eigenspace]:
    """The eigenspaces of ascending pairs that hold the first `count` of them."""
    return [Eigenspace(vectors[a:b]) for a, b in pairwise(_cluster_ends(values)) if a < count]


def contracted_eigenspaces(contraction: Contraction, count: int) -> list[Eigenspace]:
    """The eigenspaces that hold the `count` smallest non-trivial pairs, ascending. Requires so many pairs to exist."""
    repeated = contraction.tokens > 1
    dimensions = (contraction.tokens[repeated] - 1).clamp(max=count + 1)
    differences = contraction.differences[repeated].repeat_interleave(dimensions)
    nodes = len(contraction.trivial)
    computed = nodes - 1 if nodes <= DENSE_UP_TO else min(count + GUARD, nodes - 1)
    while True:
        pairs = smallest_eigenpairs(contraction.laplacian[None], contraction.trivial[None], computed)
        values, vectors = pairs.values[0], pairs.vectors[0]
        merged = torch.cat([values, differences]).sort().values
        clusters = [(merged[a], merged[b - 1]) for a, b in pairwise(_cluster_ends(merged)) if a < count]
        if computed == nodes - 1 or clusters[-1][1] < values[-1]:
            break
        computed = min(GROWTH * computed, nodes - 1)

    def eigenspace(first: Tensor, last: Tensor) -> Eigenspace:
        classes = repeated & (contraction.differences >= first) & (contraction.differences <= last)
        inside = vectors[(values >= first) & (values <= last)]
        return Eigenspace(contraction.expand(inside), Differences(contraction, classes) if classes.any() else None)

    return [eigenspace(*cluster) for cluster in clusters]


def _cluster_ends(values: Float[Tensor, "c"]) -> list[int]:
    return [0, *(1 + (values.diff() > CLUSTER).nonzero().flatten()).tolist(), len(values)]
