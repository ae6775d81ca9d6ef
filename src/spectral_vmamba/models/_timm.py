"""Import timm. Every module of the package that needs timm first gets it from here.

timm needs torchvision, whose import can fail: see `spectral_vmamba_startup/torchvision_operators.py`.
"""

from spectral_vmamba_startup.torchvision_operators import import_torchvision

import_torchvision()

import timm  # noqa: E402

__all__ = ["timm"]
