"""S6 along visiting orders, and STM, the merge back into grid order, as one op (eq. 1-4 of the paper)."""

from spectral_vmamba.ops.selective_scan.api import BACKENDS, Backend, missing_backends, resolve_backend, selective_scan
from spectral_vmamba.ops.selective_scan.scan_inputs import ScanInputs

__all__ = ["BACKENDS", "Backend", "ScanInputs", "missing_backends", "resolve_backend", "selective_scan"]
