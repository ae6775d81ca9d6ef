"""Find, load, check and call the shared library. Nothing happens at import; a failure to load is a reason, no error."""

import logging
import os
from ctypes import CDLL, c_void_p
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

# Raised together with SV_ABI in csrc/abi.cpp whenever a signature or a struct changes.
ABI = 2
ENVIRONMENT_VARIABLE = "SPECTRAL_VMAMBA_LIBRARY"
_STEM = "libspectral_vmamba_native"
_PACKAGE_FOLDER = Path(__file__).resolve().parents[2]
_OUT_OF_MEMORY, _BAD_INPUT = 1, 2


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
    if version != ABI:
        return Native(
            None, f"{path} is of another version (interface {version}, expected {ABI}); reinstall the package"
        )
    return Native(library, "")
