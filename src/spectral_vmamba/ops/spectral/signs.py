"""Signs of eigenvectors in C++ (csrc/signs.cpp), where the library is installed: one short walk over the tokens in
place of some sixty small tensor operations."""

from ctypes import Structure, byref, c_double, c_int32, c_int64

import torch
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.ops.native import call, pointer


class _SignOptions(Structure):
    _fields_ = (
        [(name, c_int64) for name in ("images", "tokens", "count", "vectors_image")]
        + [(name, c_double) for name in ("significant", "clear")]
        + [(name, c_int32) for name in ("degree", "threads")]
    )


def native_signs(
    vectors: Float[Tensor, "b m l"],
    trivial: Float[Tensor, "b l"],
    content: Float[Tensor, "b l"],
    squared_radii: Int[Tensor, "l"],
    node_order: Int[Tensor, "b l"],
    significant: float,
    clear: float,
    degree: int,
) -> Float[Tensor, "b m"]:
    images, count, tokens = vectors.shape
    if vectors.stride()[1:] != (tokens, 1):
        vectors = vectors.contiguous()
    inputs = [tensor.contiguous() for tensor in (trivial, content, squared_radii, node_order)]
    signs = torch.empty(images, count, dtype=torch.float64)
    threads = torch.get_num_threads()
    options = _SignOptions(images, tokens, count, vectors.stride(0), significant, clear, degree, threads)
    arrays = (pointer(tensor) for tensor in (vectors, *inputs, signs))
    call("sv_eigenvector_signs", byref(options), *arrays)
    return signs
