"""Find, load, check and call the shared library, on first use. If loading fails, the reason is returned."""

import logging
import os
from ctypes import CDLL, POINTER, Structure, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_void_p, sizeof
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

# Increase this together with SV_ABI in csrc/abi.cpp whenever a signature or a struct changes.
ABI = 5
ENVIRONMENT_VARIABLE = "SPECTRAL_VMAMBA_LIBRARY"
_STEM = "libspectral_vmamba_native"
_PACKAGE_FOLDER = Path(__file__).resolve().parents[2]
_OUT_OF_MEMORY, _BAD_INPUT, _FAILED = 1, 2, 3


class Scan(Structure):
    """`sv_scan` of csrc/scan.h."""

    _fields_ = (
        [(name, c_void_p) for name in ("x", "delta", "A", "B", "C", "D", "bias", "orders")]
        + [(name, c_int64) for name in ("images", "tokens", "channels", "states", "sets", "paths")]
        + [(name, c_int64) for name in ("x_image", "x_token", "delta_image", "delta_set", "delta_token")]
        + [(name, c_int32) for name in ("x_type", "delta_type", "threads", "reserved")]
    )


class ScanGradients(Structure):
    """`sv_scan_gradients` of csrc/scan.h."""

    _fields_ = [(name, c_void_p) for name in ("grad_y", "x", "delta", "A", "B", "C", "D", "bias")]


class GraphOptions(Structure):
    """`sv_graph_options` of csrc/graph.h."""

    _fields_ = (
        [(name, c_int64) for name in ("images", "tokens", "channels", "neighbors")]
        + [(name, c_double) for name in ("same", "tie", "weakest")]
        + [(name, c_int32) for name in ("threads", "reserved")]
    )


class GraphArrays(Structure):
    """`sv_graph_arrays` of csrc/graph.h."""

    _fields_ = [(name, c_void_p) for name in ("nodes", "offsets", "owner", "sizes", "columns", "weights")]


class EigenOptions(Structure):
    """`sv_eigen_options` of csrc/eigen.h."""

    _fields_ = (
        [(name, c_int64) for name in ("images", "tokens", "wanted", "count")]
        + [("cluster", c_double)]
        + [(name, c_int32) for name in ("threads", "reserved")]
    )


class SignOptions(Structure):
    """`sv_sign_options` of csrc/signs.h."""

    _fields_ = (
        [(name, c_int64) for name in ("images", "tokens", "count", "vectors_image")]
        + [(name, c_double) for name in ("significant", "clear")]
        + [(name, c_int32) for name in ("degree", "threads")]
    )


class PoseOptions(Structure):
    """`sv_pose_options` of csrc/pose.h."""

    _fields_ = [(name, c_int64) for name in ("images", "channels", "side")] + [
        (name, c_int32) for name in ("threads", "reserved")
    ]


# The size of every struct is compared with the library's at load time.
_STRUCTS = {
    "sv_scan": Scan,
    "sv_scan_gradients": ScanGradients,
    "sv_graph_options": GraphOptions,
    "sv_graph_arrays": GraphArrays,
    "sv_eigen_options": EigenOptions,
    "sv_sign_options": SignOptions,
    "sv_pose_options": PoseOptions,
}
# The result type and the argument types of every function. Without them ctypes assumes int, and cuts off 64-bit values.
_FUNCTIONS = {
    "sv_abi_version": (c_int, []),
    "sv_struct_size": (c_int64, [c_char_p]),
    "sv_last_error": (c_char_p, []),
    "sv_check_orders": (c_int, [c_void_p, c_int64, c_int64]),
    "sv_scan_forward": (c_int, [POINTER(Scan), c_void_p]),
    "sv_scan_backward": (c_int, [POINTER(Scan), POINTER(ScanGradients)]),
    "sv_neighbor_graphs": (c_int, [POINTER(GraphOptions), c_void_p, POINTER(c_void_p)]),
    "sv_graphs_entries": (c_int64, [c_void_p]),
    "sv_graphs_copy": (None, [c_void_p, POINTER(GraphArrays)]),
    "sv_graphs_free": (None, [c_void_p]),
    "sv_most_eigenvectors": (c_int64, []),
    "sv_smallest_eigenpairs": (c_int, [POINTER(EigenOptions), POINTER(GraphArrays), *[c_void_p] * 6]),
    "sv_eigenvector_signs": (c_int, [POINTER(SignOptions), *[c_void_p] * 6]),
    "sv_find_directions": (c_int, [POINTER(PoseOptions), *[c_void_p] * 2, *[c_float] * 2, *[c_void_p] * 3]),
    "sv_rotate_disks": (c_int, [POINTER(PoseOptions), *[c_void_p] * 4, c_int64, c_void_p]),
}


class Native(NamedTuple):
    """The library, or the reason why it is missing."""

    library: CDLL | None
    reason: str


class NativeError(RuntimeError):
    """A kernel reported failure."""


@cache
def load_native() -> Native:
    """The kernels of this installation, or of the file that SPECTRAL_VMAMBA_LIBRARY names."""
    path = _find()
    if path is None:
        return Native(None, "none were built (no C++ compiler, or the build failed); reinstall with one for speed")
    return _load(path)


@cache
def notice_missing() -> None:
    """Log one line at the first use of a slower kernel."""
    reason = load_native().reason
    if reason:
        logging.getLogger("spectral_vmamba").warning("native CPU kernels are off, torch runs instead: %s", reason)


def call(function: str, *arguments) -> None:
    """Call a C function that returns a status; a status other than 0 raises an exception."""
    library = load_native().library
    if library is None:
        raise NativeError(f"native kernels are not available: {load_native().reason}")
    status = getattr(library, function)(*arguments)
    if status == _OUT_OF_MEMORY:
        raise MemoryError(f"the native kernel {function} could not allocate its working memory")
    if status == _BAD_INPUT:
        raise ValueError(f"the native kernel {function} was given invalid input")
    if status == _FAILED:
        raise NativeError(f"the native kernel {function} failed: {library.sv_last_error().decode(errors='replace')}")
    if status:
        raise NativeError(f"the native kernel {function} failed with status {status}")


def pointer(tensor: Tensor) -> c_void_p:
    """The address of a tensor's data. Keep the tensor alive, by a name, until the call returns."""
    return c_void_p(tensor.data_ptr())


def _find() -> Path | None:
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        return Path(named)
    packaged = sorted(_PACKAGE_FOLDER.glob(f"{_STEM}.*"))
    if packaged:
        return packaged[0]
    try:  # an editable install keeps compiled files outside the source folder
        installed = files("spectral-vmamba") or []
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in installed if file.name.startswith(_STEM)), None)


def _load(path: Path) -> Native:
    try:
        library = CDLL(str(path))
    except OSError as error:
        return Native(None, f"{path} does not load ({error}); reinstall the package")
    try:
        version = library.sv_abi_version()
    except AttributeError:
        return Native(None, f"{path} is not this package's library; reinstall the package")
    problem = f"interface {version}, expected {ABI}" if version != ABI else _declare(library)
    if problem:
        return Native(None, f"{path} was built for another version ({problem}); reinstall the package")
    return Native(library, "")


def _declare(library: CDLL) -> str:
    """Declare every function and compare the size of every struct; returns the first difference, or an empty string."""
    for name, (result, arguments) in _FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            return f"it has no function {name}"
        function.restype, function.argtypes = result, arguments
    for name, struct in _STRUCTS.items():
        size = library.sv_struct_size(name.encode())
        if size != sizeof(struct):
            return f"{name} has {size} bytes, expected {sizeof(struct)}"
    return ""
