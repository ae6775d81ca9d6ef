"""Calling a C function: tensors become pointers, a status becomes an exception."""

from ctypes import c_void_p

from torch import Tensor

from spectral_vmamba.ops.native.library import NativeError, load_native

_OUT_OF_MEMORY, _BAD_INPUT = 1, 2


def pointer(tensor: Tensor) -> c_void_p:
    """The tensor must be kept alive, by a name, until the call is over."""
    return c_void_p(tensor.data_ptr())


def call(function: str, *arguments) -> None:
    library = load_native().library
    if library is None:
        raise NativeError(f"native kernels are not available: {load_native().reason}")
    status = getattr(library, function)(*arguments)
    if status == _OUT_OF_MEMORY:
        raise MemoryError(f"the native kernel {function} could not allocate its working memory")
    if status == _BAD_INPUT:
        raise ValueError(f"the native kernel {function} was given invalid input")
    if status:
        raise NativeError(f"the native kernel {function} failed with status {status}")
