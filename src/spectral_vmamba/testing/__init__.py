"""Tools for testing that a model keeps its answer when the image turns."""

from spectral_vmamba.metrics.rotation_gap import RotationGap, rotation_gap
from spectral_vmamba.testing.scan import activate_scan

__all__ = ["RotationGap", "activate_scan", "rotation_gap"]
