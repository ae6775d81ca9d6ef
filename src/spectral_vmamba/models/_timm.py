"""Import timm. Every module of the package that needs timm first gets it from here.

timm needs torchvision, whose import can fail: see `spectral_vmamba_startup/torchvision_operators.py`.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from spectral_vmamba_startup.torchvision_operators import import_torchvision

import_torchvision()

import timm  # noqa: E402

__all__ = ["timm", "without_warnings"]


@contextmanager
def without_warnings(logger_name: str) -> Iterator[None]:
    """Hide the logger's warnings."""
    logger = logging.getLogger(logger_name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
