"""Imports go down only, and timm is known where its models, transforms and recipes are used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import spectral_vmamba

ROOT = Path(spectral_vmamba.__file__).parent
# Each package may import those to its right.
ALLOWED = {
    "cli": {"bench", "engine", "analysis", "testing", "data", "models", "layers", "ops"},
    "bench": {"analysis", "testing", "data", "models", "layers", "ops"},
    "engine": {"analysis", "data", "models", "layers", "ops"},
    "analysis": {"testing", "data", "models", "layers", "ops"},
    "testing": {"ops"},
    "data": set(),
    "models": {"layers", "ops"},
    "layers": {"ops"},
    "ops": set(),
}


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module)
    return names


def sources():
    return [path for path in ROOT.rglob("*.py") if path.parent != ROOT]


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path):
    package = path.relative_to(ROOT).parts[0]
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "spectral_vmamba" and len(parts) > 1 and parts[1] != "_version":
            assert parts[1] == package or parts[1] in ALLOWED[package], f"{package} must not import {name}"
        if parts[0] in ("timm", "torchvision"):
            assert package in ("models", "data", "engine"), f"{package} must not import {name}"
        if package == "ops":
            assert (
                parts[0] in ("torch", "numpy", "scipy", "jaxtyping", "spectral_vmamba")
                or parts[0] in sys.stdlib_module_names
            )


def test_every_package_has_a_rule():
    assert {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"} <= ALLOWED.keys()


def test_importing_prints_nothing_and_changes_nothing():
    state = "(torch.get_default_dtype(), torch.get_num_threads(), torch.random.get_rng_state().sum())"
    code = f"import torch; before = {state}; import spectral_vmamba; assert before == {state}"
    command = [sys.executable, "-W", "error::UserWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_no_plotting_until_something_is_plotted():
    code = "import sys, spectral_vmamba; assert 'matplotlib.figure' not in sys.modules; spectral_vmamba.info()"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_torchvision_imports_whatever_it_was_built_for():
    """Beside a CPU build of torch a CUDA build of torchvision stops at import; the package mends that."""
    code = "import spectral_vmamba, torchvision, timm; timm.create_model('resnet18'); print(torchvision.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_readmes_first_example_runs():
    readme = (ROOT.parents[1] / "README.md").read_text()
    example = readme.split("```python")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_files_stay_readable():
    long = {str(p.relative_to(ROOT)): n for p in ROOT.rglob("*.py") if (n := len(p.read_text().splitlines())) > 300}
    assert not long
