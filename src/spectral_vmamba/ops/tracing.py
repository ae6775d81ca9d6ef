"""What may be done with a tensor while torch traces operations."""

import torch
from torch import Tensor


def may_branch(tensor: Tensor) -> bool:
    """Whether operations may depend on the values of a tensor: compilers and exports cannot follow, fake tensors have
    none, and other devices would have to wait."""
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()  # pyright: ignore[reportPrivateImportUsage]
    return type(tensor) is Tensor and tensor.device.type == "cpu" and not traced
