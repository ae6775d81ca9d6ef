"""Helpers for testing rotation invariance of models."""

from spectral_vmamba.metrics.rotation import RotationGap, rotation_gap
from spectral_vmamba.testing.scan import activate_scan

__all__ = ["RotationGap", "activate_scan", "rotation_gap"]
