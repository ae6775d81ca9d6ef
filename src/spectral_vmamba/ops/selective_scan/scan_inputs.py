"""The inputs of a selective scan as one value."""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor


class ScanInputs(NamedTuple):
    """The inputs of every scan kernel, in the order of the op's schema; `selective_scan` documents them."""

    x: Float[Tensor, "b l d"]
    delta: Float[Tensor, "b g l d"]
    A: Float[Tensor, "g d n"]
    B: Float[Tensor, "b g l n"]
    C: Float[Tensor, "b g l n"]
    D: Float[Tensor, "g d"]
    delta_bias: Float[Tensor, "g d"]
    orders: Int[Tensor, "b k l"]

    @property
    def differentiable(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """All inputs but the orders."""
        return self[:-1]
