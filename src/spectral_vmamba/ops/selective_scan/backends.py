"""Which implementation runs, and why one is not there."""

import os
from typing import Literal, get_args

from spectral_vmamba.ops.native import load_native

Backend = Literal["auto", "reference", "portable", "native"]
BACKENDS: tuple[str, ...] = get_args(Backend)
ENVIRONMENT_VARIABLE = "SPECTRAL_VMAMBA_BACKEND"


def resolve_backend(backend: str = "auto") -> Backend:
    """`auto` gives way to the environment variable; an unknown name is an error that lists the known ones."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE, "auto") if backend == "auto" else backend
    if chosen not in BACKENDS:
        raise ValueError(f"unknown backend {chosen!r}; expected one of {', '.join(BACKENDS)}")
    if chosen in missing_backends():
        raise ValueError(f"backend {chosen!r} is not available: {missing_backends()[chosen]}")
    return chosen  # pyright: ignore[reportReturnType]


def missing_backends() -> dict[str, str]:
    """Backends that this installation lacks, each with the reason."""
    reason = load_native().reason
    return {"native": reason} if reason else {}
