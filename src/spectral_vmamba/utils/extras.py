"""Optional packages: imported on first use, and a missing one names its extra."""

from importlib import import_module
from typing import Any


def require(module: str, extra: str) -> Any:
    """Import `module`, or raise an ImportError that says which extra of this package installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        missing = error.name or module
        raise ImportError(f"this needs {missing}: pip install 'spectral-vmamba[{extra}]'", name=error.name) from error
