"""What every eigensolver returns, how it fails, and the tolerances that solvers share."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

# ‖Lv − λv‖ that a returned pair may have. The error of its vector is at most this over the gap to the next value.
LARGEST_RESIDUAL = 1e-11
# Eigenvalues nearer than this belong to one eigenspace.
CLUSTER = 1e-6


class Eigenpairs(NamedTuple):
    """Eigenvalues in ascending order, unit eigenvectors, and residuals ‖Lv − λv‖."""

    values: Float[Tensor, "b m"]
    vectors: Float[Tensor, "b m l"]
    residuals: Float[Tensor, "b m"]

    def replace_image(self, image: int, pairs: "Eigenpairs") -> None:
        """Overwrite the pairs of one image, in place, by those of a batch of one."""
        for target, source in zip(self, pairs, strict=True):
            target[image] = source[0]


class ConvergenceError(ArithmeticError):
    """No solver converged; `.eigenpairs` holds the pairs so far, residuals included."""

    def __init__(self, message: str, eigenpairs: Eigenpairs):
        super().__init__(message)
        self.eigenpairs = eigenpairs
