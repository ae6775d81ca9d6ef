"""Versions, the machine, and the backends of this installation, with the reason for each missing one."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from spectral_vmamba._version import __version__
from spectral_vmamba.ops.selective_scan import BACKENDS, missing_backends, resolve_backend
from spectral_vmamba.ops.spectral import SOLVERS
from spectral_vmamba.utils.wording import plural
from spectral_vmamba_startup.torchvision_operators import operators_are_stubs

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


@dataclass(frozen=True, repr=False)
class Environment:
    """What `spectral_vmamba.info()` returns. Printing it gives the text of `spectral-vmamba info`."""

    version: str
    python: str
    machine: str
    threads: int
    accelerator: str
    packages: dict[str, str]
    backends: dict[str, str]
    solvers: tuple[str, ...]

    def __repr__(self) -> str:
        facts = {
            "python": f"{self.python} on {self.machine}, {plural(self.threads, 'thread')}",
            "accelerator": self.accelerator,
            **self.packages,
        }
        return "\n".join(
            [
                f"spectral-vmamba {self.version}",
                *_align(facts),
                "selective-scan backends",
                *_align(self.backends),
                "eigensolvers",
                f"  {', '.join(self.solvers)}",
            ]
        )


def describe_processor() -> str:
    """The operating system, the architecture and, where the system tells it, the name of the processor."""
    kind = f"{platform.system()} {platform.machine()}"
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{kind} {platform.processor()}".strip()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{kind} {names[0]}" if names else kind


def measure_environment() -> Environment:
    """Collect versions and try which backends load."""
    backends = {name: "available" for name in BACKENDS if name != "auto"}
    backends |= {name: f"missing: {reason}" for name, reason in missing_backends().items()}
    backends["auto"] = _automatic_backend()
    return Environment(
        version=__version__,
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}",
        threads=torch.get_num_threads(),
        accelerator=_accelerator(),
        packages={name: _installed_version(name) for name in _PACKAGES} | {"torchvision": _describe_torchvision()},
        backends=backends,
        solvers=SOLVERS,
    )


def _align(facts: Mapping[str, str]) -> list[str]:
    width = max(map(len, facts))
    return [f"  {name:{width}}  {value}" for name, value in facts.items()]


def _automatic_backend() -> str:
    try:
        backend = resolve_backend()
    except ValueError as error:
        return f"error: SPECTRAL_VMAMBA_BACKEND names an unavailable backend: {error}"
    if backend != "auto":
        return f"{backend}, set by SPECTRAL_VMAMBA_BACKEND"
    return "portable" if "native" in missing_backends() else "native on the CPU, portable elsewhere"


def _accelerator() -> str:
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return "mps" if torch.backends.mps.is_available() else "none"


def _describe_torchvision() -> str:
    installed = _installed_version("torchvision")
    stubs = "; built for CUDA, torch is not: works, except for nms and other C++ operators (docs/troubleshooting.md)"
    return installed + (stubs if operators_are_stubs() else "")


def _installed_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
