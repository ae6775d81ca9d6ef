"""Which implementation runs, and why one is not there."""

import os
from typing import Literal, get_args

Backend = Literal["auto", "reference", "portable"]
BACKENDS: tuple[str, ...] = get_args(Backend)
ENVIRONMENT_VARIABLE = "SPECTRAL_VMAMBA_BACKEND"


def resolve_backend(backend: str = "auto") -> Backend:
    """`auto` gives way to the environment variable; an unknown name is an error that lists the known ones."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE, "auto") if backend == "auto" else backend
    if chosen in missing_backends():
        raise ValueError(f"backend {chosen!r} is not available: {missing_backends()[chosen]}")
    if chosen not in BACKENDS:
        raise ValueError(f"unknown backend {chosen!r}; expected one of {', '.join(BACKENDS)}")
    return chosen  # pyright: ignore[reportReturnType]


def missing_backends() -> dict[str, str]:
    """Backends that exist elsewhere but not in this installation, each with the reason."""
    return {"native": "this version carries no C++ kernels; `auto` runs the portable torch kernels"}
