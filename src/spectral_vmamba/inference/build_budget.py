"""Limit what building a model may take, before it takes it: the model is built on the meta device, without memory."""

from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

_FREE_OPERATIONS = 8000  # a whole EfficientNet-B7, of which a stem keeps the first stages: 6,300
_OPERATIONS_PER_TENSOR = 20  # measured over timm's and our networks: 2 to 8
_FREE_BYTES = 2**31
_FREE_MODEL_BYTES = 2**26
_BYTES_PER_BYTE = 4


class BuildBudget(TorchDispatchMode):
    """A context in which a model is built on the meta device. It ends with a ValueError when the model has far more
    tensors than a file of weights, or needs far more memory.

    More than the tensors of the finished model count: a stem is built whole before it is cut.
    """

    def __init__(self, tensors: int, size: int):
        super().__init__()
        self.device = torch.device("meta")
        self.size = size
        self.operations_left = _FREE_OPERATIONS + _OPERATIONS_PER_TENSOR * tensors
        self.bytes_left = _FREE_BYTES + _BYTES_PER_BYTE * size
        self.described = f"the file's {tensors:,} tensors of {size:,} bytes"

    def check(self, model: nn.Module) -> None:
        """Compare the tensors of the finished model with the file. Buffers count too: those that no file contains can
        be far larger than the weights."""
        size = sum(tensor.nbytes for tensor in chain(model.parameters(), model.buffers()))
        if size > _FREE_MODEL_BYTES + _BYTES_PER_BYTE * self.size:
            raise ValueError(f"the model has tensors of {size:,} bytes, far more than {self.described}")

    def __enter__(self):
        self.device.__enter__()
        return super().__enter__()

    def __exit__(self, *exception: Any):
        super().__exit__(*exception)
        self.device.__exit__(*exception)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        self.operations_left -= 1
        sizes = [part.numel() * part.element_size() for part in tree_iter(output) if isinstance(part, Tensor)]
        if any(isinstance(part, Tensor) for part in tree_iter(args)):
            too_large = any(size > self.bytes_left for size in sizes)  # not summed: most are views or temporary
        else:
            self.bytes_left -= sum(sizes)
            too_large = self.bytes_left < 0
        if self.operations_left < 0 or too_large:
            raise ValueError(f"the model is far larger than {self.described}")
        return output
