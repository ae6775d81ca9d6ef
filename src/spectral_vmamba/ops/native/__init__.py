"""The C++ kernels of `csrc/`: an optional shared library behind a C interface, found and called through ctypes."""

from spectral_vmamba.ops.native.call import call, pointer
from spectral_vmamba.ops.native.library import Native, NativeError, load_native, notice_missing

__all__ = ["Native", "NativeError", "call", "load_native", "notice_missing", "pointer"]
