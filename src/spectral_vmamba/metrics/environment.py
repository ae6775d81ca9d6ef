"""What this installation can do, and why it cannot do the rest."""

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import torch

from spectral_vmamba._version import __version__
from spectral_vmamba.ops.selective_scan import BACKENDS, missing_backends, resolve_backend
from spectral_vmamba.ops.spectral import SOLVERS

_PACKAGES = (
    "torch",
    "torchvision",
    "timm",
    "numpy",
    "scipy",
    "safetensors",
    "matplotlib",
    "jsonargparse",
    "rich",
)


@dataclass(frozen=True)
class Environment:
    version: str
    python: str
    machine: str
    threads: int
    accelerator: str
    packages: dict[str, str]
    backends: dict[str, str]
    solvers: tuple[str, ...]


def measure_environment() -> Environment:
    backends = {name: "available" for name in BACKENDS if name != "auto"}
    backends |= {name: f"missing: {reason}" for name, reason in missing_backends().items()}
    backends["auto"] = _automatic_backend()
    return Environment(
        version=__version__,
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}",
        threads=torch.get_num_threads(),
        accelerator=_accelerator(),
        packages={name: _version(name) for name in _PACKAGES},
        backends=backends,
        solvers=SOLVERS,
    )


def _automatic_backend() -> str:
    try:
        chosen = resolve_backend()
    except ValueError as error:
        return f"error: the environment asks for what is not there: {error}"
    if chosen != "auto":
        return f"{chosen}, by the environment"
    return "portable" if "native" in missing_backends() else "native on the CPU, portable elsewhere"


def _accelerator() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return "mps" if torch.backends.mps.is_available() else "none"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
