"""timm and torchvision can be imported before or after this package, in fresh processes."""

import os
import subprocess
import sys

import pytest
import torch

from spectral_vmamba_startup import torchvision_operators
from spectral_vmamba_startup.torchvision_operators import operators_are_stubs

IN_ANY_ORDER = "import timm; timm.create_model('resnet18'); import spectral_vmamba, torchvision; print('imported')"
AFTER_A_FAILURE = """
try:
    import timm
except RuntimeError as error:
    print(error)
import spectral_vmamba, timm.layers, timm.data
timm.create_model("spectral_vmamba_nano")
print(timm.version.__version__ == timm.__version__)
"""
_MISMATCHED = pytest.mark.skipif(
    not operators_are_stubs(), reason="torchvision's operators load next to this build of torch"
)


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)


def test_timm_can_be_imported_first():
    """With a CUDA build of torchvision next to a CPU build of torch, only because torch calls the entry point."""
    done = run_python(IN_ANY_ORDER)
    assert (done.returncode, done.stdout) == (0, "imported\n"), done.stderr


@pytest.mark.full
@_MISMATCHED
def test_the_package_can_be_imported_after_an_import_of_timm_that_failed():
    done = run_python(AFTER_A_FAILURE, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stdout.splitlines() == ["operator torchvision::nms does not exist", "True"], done.stderr


@pytest.mark.parametrize(
    ("version_file", "cuda", "expected"),
    [
        ("__version__ = '0.28.0+cu130'\n", None, True),
        ("__version__ = '0.28.0+cu130'\n", "13.0", False),
        ("__version__ = '0.28.0+cpu'\n", None, False),
        ("__version__ = '0.28.0'\n", None, False),
        (None, None, False),
    ],
)
def test_schemas_are_defined_only_for_a_cuda_build_next_to_a_cpu_build(
    monkeypatch, tmp_path, version_file, cuda, expected
):
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").touch()
    if version_file is not None:
        (package / "version.py").write_text(version_file)
    defined = []
    monkeypatch.setattr(torchvision_operators, "define_missing_operators", lambda: defined.append(True))
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchvision")
    torchvision_operators.define_if_mismatched()
    assert bool(defined) == expected
