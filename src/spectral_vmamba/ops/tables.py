"""Index tables that depend on plain numbers alone, behind one torch op.

A table is a numpy function that is registered by name. Calling it through an op shows compilers and exporters a tensor
of known shape in place of numpy code that they cannot trace.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

TableFunction = Callable[[tuple[int, ...], str, float | None], np.ndarray]
_FUNCTIONS: dict[str, TableFunction] = {}


def register_table(name: str) -> Callable[[TableFunction], TableFunction]:
    """Make `function(sizes, names, diameter)` available as `index_table(name, sizes, names, diameter)`."""

    def register(function: TableFunction) -> TableFunction:
        _FUNCTIONS[name] = function
        return function

    return register


def index_table(
    name: str, sizes: tuple[int, ...], names: str = "", diameter: float | None = None
) -> Int[Tensor, "..."]:
    """A registered table as a new CPU tensor. What `sizes`, `names` and `diameter` mean is up to the table."""
    return _index_table(name, sizes, names, diameter, torch.device("cpu"))


@lru_cache(maxsize=1024)
def table_array(
    name: str, sizes: tuple[int, ...], names: str = "", diameter: float | None = None
) -> Int[np.ndarray, "..."]:
    """A registered table as a shared numpy array. Do not write to it."""
    return _FUNCTIONS[name](sizes, names, diameter).astype(np.int64)


@torch.library.custom_op(
    "spectral_vmamba::index_table",
    mutates_args=(),
    schema="(str name, int[] sizes, str names, float? diameter, Device device) -> Tensor",
    device_types="cpu",
)
def _index_table(name, sizes, names, diameter, device):
    return torch.tensor(table_array(name, tuple(sizes), names, diameter))


@_index_table.register_fake
def _(name, sizes, names, diameter, device):
    shape = table_array(name, tuple(int(size) for size in sizes), names, diameter).shape
    return torch.empty(shape, dtype=torch.int64, device=device)
