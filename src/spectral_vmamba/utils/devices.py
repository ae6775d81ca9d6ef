"""The device that a network runs on: one set of names for the command line, the settings and the Python API."""

from typing import Literal, get_args

import torch

Device = Literal["auto", "cpu", "cuda", "mps"]


def resolve_device(device: str | torch.device = "auto") -> torch.device:
    """Return the device with this name; "auto" is a GPU (cuda, else mps) if torch can use one, else the CPU.

    A number selects one of several GPUs, as in "cuda:1". Raises ValueError for other names and for devices that torch
    cannot use here.
    """
    if device == "auto":
        return torch.device(next((name for name in ("cuda", "mps") if _is_usable(name)), "cpu"))
    try:
        resolved = torch.device(device)
    except RuntimeError:
        resolved = None
    if resolved is None or resolved.type not in get_args(Device):
        raise ValueError(f"expected the device {', '.join(get_args(Device)[:-1])} or mps, got {str(device)!r}")
    if not _is_usable(resolved.type):
        raise ValueError(f"the device {resolved} is not available: {_missing_reason(resolved.type)}; use cpu or auto")
    count = torch.cuda.device_count() if resolved.type == "cuda" else 1
    if (resolved.index or 0) >= count:
        raise ValueError(f"the device {resolved} is not available: torch finds {count}, numbered from 0")
    return resolved


def _is_usable(kind: str) -> bool:
    available = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    return available[kind]() if kind in available else True


def _missing_reason(kind: str) -> str:
    is_built = torch.backends.cuda.is_built() if kind == "cuda" else torch.backends.mps.is_built()
    return f"torch {torch.__version__} " + ("finds no such GPU" if is_built else f"was built without {kind}")
