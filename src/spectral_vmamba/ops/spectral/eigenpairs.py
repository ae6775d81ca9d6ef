"""What every eigensolver returns, and how it fails."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

# ‖Lv − λv‖ that a returned pair may have. The error of its vector is at most this over the gap to the next value.
LARGEST_RESIDUAL = 1e-11


class Eigenpairs(NamedTuple):
    values: Float[Tensor, "b m"]
    vectors: Float[Tensor, "b m l"]
    residuals: Float[Tensor, "b m"]


class ConvergenceError(ArithmeticError):
    """A solver stopped short; `.eigenpairs` holds what it had, residuals included."""

    def __init__(self, message: str, eigenpairs: Eigenpairs):
        super().__init__(message)
        self.eigenpairs = eigenpairs
