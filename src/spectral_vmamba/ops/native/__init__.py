"""The C++ kernels of `csrc/`: an optional shared library with a C interface, called through ctypes."""

from spectral_vmamba.ops.native.library import (
    EigenOptions,
    GraphArrays,
    GraphOptions,
    Native,
    NativeError,
    PoseOptions,
    Scan,
    ScanGradients,
    SignOptions,
    call,
    load_native,
    notice_missing,
    pointer,
)

__all__ = [
    "EigenOptions",
    "GraphArrays",
    "GraphOptions",
    "Native",
    "NativeError",
    "PoseOptions",
    "Scan",
    "ScanGradients",
    "SignOptions",
    "call",
    "load_native",
    "notice_missing",
    "pointer",
]
