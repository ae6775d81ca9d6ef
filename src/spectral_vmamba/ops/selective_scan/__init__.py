"""S6 along visiting orders and STM, the merge back into grid order, as one op (design of the paper, eq. 1-4)."""

from spectral_vmamba.ops.selective_scan.backends import BACKENDS, Backend, missing_backends, resolve_backend
from spectral_vmamba.ops.selective_scan.function import selective_scan

__all__ = ["BACKENDS", "Backend", "missing_backends", "resolve_backend", "selective_scan"]
