"""The description of the installation."""

import subprocess
import sys

import pytest

import spectral_vmamba
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.ops.native import Native, load_native
from spectral_vmamba.ops.selective_scan import api


def test_available_backends_and_versions():
    environment = measure_environment()
    assert environment.packages["torch"].startswith("2")
    missing = load_native().reason
    assert environment.backends["native"] == (f"missing: {missing}" if missing else "available")
    assert environment.backends["portable"] == "available"


def test_a_missing_backend_has_a_reason(monkeypatch):
    monkeypatch.setattr(api, "load_native", lambda: Native(None, "no compiler"))
    assert measure_environment().backends["native"] == "missing: no compiler"
    assert measure_environment().backends["auto"] == "portable"
    monkeypatch.setenv("SPECTRAL_VMAMBA_BACKEND", "native")
    assert "not available: no compiler" in measure_environment().backends["auto"]


def test_the_environment_variable_is_named(monkeypatch):
    monkeypatch.setenv("SPECTRAL_VMAMBA_BACKEND", "reference")
    assert measure_environment().backends["auto"] == "reference, set by SPECTRAL_VMAMBA_BACKEND"


def test_info_prints_well():
    """In a REPL, `spectral_vmamba.info()` shows a block of aligned lines."""
    environment = spectral_vmamba.info()
    lines = repr(environment).splitlines()
    assert str(environment) == repr(environment)
    assert lines[0] == f"spectral-vmamba {spectral_vmamba.__version__}"
    assert "selective-scan backends" in lines
    assert f"  torch         {environment.packages['torch']}" in lines
    assert f"  portable   {environment.backends['portable']}" in lines
    assert lines[-1] == f"  {', '.join(environment.solvers)}"
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.full
def test_info_does_not_import_matplotlib():
    code = "import sys, spectral_vmamba; spectral_vmamba.info(); assert 'matplotlib' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
