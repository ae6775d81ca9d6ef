"""Loading the native library: side effects, missing and unsuitable libraries."""

import subprocess
import sys
from ctypes.util import find_library

import pytest

from spectral_vmamba.ops.native import library as native_library
from tests.support.native import needs_native


@needs_native
def test_loading_does_not_flush_denormals():
    """A library linked with -ffast-math would switch the process to flush-to-zero."""
    code = """
import numpy, torch
from spectral_vmamba.ops.native import load_native
assert load_native().library is not None
assert float(torch.tensor([1e-40]) * 1.0) == float(torch.tensor([1e-40])) != 0
assert numpy.float32(1e-40) * numpy.float32(1) != 0
tiny = float("1e-310")
assert tiny * float("1") == tiny != 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


FALLBACK = """
import logging, torch
logging.basicConfig()
from spectral_vmamba.ops.selective_scan import selective_scan
from tests.support.scan_inputs import scan_inputs
tensors, orders = scan_inputs()
for _ in range(2):
    assert selective_scan(*tensors, orders).isfinite().all()
try:
    selective_scan(*tensors, orders, backend="native")
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("absent", "does not load"), ("text", "does not load"), ("foreign", "not this package's library")],
)
def test_without_a_suitable_library_torch_runs_and_logs_once(kind, reason, tmp_path, monkeypatch):
    paths = {"absent": tmp_path / "none.so", "text": tmp_path / "text.so", "foreign": find_library("c")}
    (tmp_path / "text.so").write_text("not a library")
    monkeypatch.setenv("SPECTRAL_VMAMBA_LIBRARY", str(paths[kind]))
    done = subprocess.run([sys.executable, "-c", FALLBACK], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("native CPU kernels are off") == 1
    assert reason in done.stderr
    assert "backend 'native' is not available" in done.stdout


@needs_native
def test_a_library_of_another_version_is_rejected(monkeypatch):
    path = native_library._find()
    monkeypatch.setattr(native_library, "ABI", 99)
    loaded = native_library._load(path)
    assert loaded.library is None
    assert "another version" in loaded.reason
    assert "reinstall" in loaded.reason
