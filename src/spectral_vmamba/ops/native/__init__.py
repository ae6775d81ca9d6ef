"""The C++ kernels of `csrc/`: an optional shared library with a C interface, called through ctypes."""

from spectral_vmamba.ops.native.library import Native, NativeError, call, load_native, notice_missing, pointer

__all__ = ["Native", "NativeError", "call", "load_native", "notice_missing", "pointer"]
