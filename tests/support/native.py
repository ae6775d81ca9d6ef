"""Skip tests of the native kernels where they are not built; CI requires them."""

import os

import pytest

from spectral_vmamba.ops.native import load_native

needs_native = pytest.mark.skipif(
    bool(load_native().reason) and not os.environ.get("SPECTRAL_VMAMBA_REQUIRE_NATIVE"),
    reason=load_native().reason or "-",
)
