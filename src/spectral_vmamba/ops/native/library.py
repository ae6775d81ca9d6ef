"""Finding, loading and vetting the shared library. Nothing happens at import; a failure is a reason, not an error."""

import logging
import os
from ctypes import CDLL
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import NamedTuple

import spectral_vmamba

# Raised together with SV_ABI in csrc/abi.cpp whenever a signature or a struct changes.
ABI = 2
ENVIRONMENT_VARIABLE = "SPECTRAL_VMAMBA_LIBRARY"
_STEM = "libspectral_vmamba_native"


class Native(NamedTuple):
    """The library, or why there is none."""

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
    """One line, at the first use of a slower kernel."""
    reason = load_native().reason
    if reason:
        logging.getLogger("spectral_vmamba").warning("native CPU kernels are off, torch runs instead: %s", reason)


def _find() -> Path | None:
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        return Path(named)
    beside = sorted(Path(spectral_vmamba.__file__).parent.glob(f"{_STEM}.*"))
    if beside:
        return beside[0]
    try:  # an editable install keeps what was compiled away from the sources
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
        found = library.sv_abi_version()
    except AttributeError:
        return Native(None, f"{path} is not this package's library; reinstall the package")
    if found != ABI:
        return Native(None, f"{path} is of another version (interface {found}, expected {ABI}); reinstall the package")
    return Native(library, "")
