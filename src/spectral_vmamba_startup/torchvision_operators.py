"""Let torchvision be imported beside a build of torch that cannot load torchvision's C++ operators.

A CUDA build of torchvision, as on PyPI, cannot load them beside a CPU build of torch, and `import torchvision`, hence
`import timm`, fails with "operator torchvision::nms does not exist". With the two missing schemas defined, without
kernels, the import works, and everything but these detection operators.
"""

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
# Definitions disappear when their Library object is garbage-collected.
_LIBRARIES: list[Any] = []


def define_if_mismatched() -> None:
    """Define the schemas if torchvision was built for CUDA and torch was not.

    An entry point of the group torch.backends: torch calls it at the end of its own import, so that it does not matter
    whether timm or this package is imported first. TORCH_DEVICE_BACKEND_AUTOLOAD=0 turns it off.
    """
    import torch

    if torch.version.cuda is None and torch.version.hip is None and _torchvision_build().startswith("cu"):
        define_missing_operators()


def import_torchvision() -> None:
    """Import torchvision; if that fails for lack of its operators, define them and import it again."""
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        _forget_partial_imports()
        define_missing_operators()
        import torchvision  # noqa: F401


def define_missing_operators() -> None:
    import torch

    if _LIBRARIES:
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name, schema in _SCHEMAS.items():
        library.define(name + schema)
    _LIBRARIES.append(library)


def operators_are_stubs() -> bool:
    """Whether the operators were defined here, so that torchvision's detection operators do not work."""
    return bool(_LIBRARIES)


def _torchvision_build() -> str:
    """The build that torchvision's version names, such as cu130 or cpu; empty if it is unknown or not installed.

    Only torchvision/version.py has it. The file is read, not imported, which would import torchvision.
    """
    spec = find_spec("torchvision")
    if spec is None or not spec.origin:
        return ""
    try:
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"""__version__\s*=\s*["'][^"'+]*\+(\w+)""", text)
    return found[1] if found else ""


def _forget_partial_imports() -> None:
    """Remove what a failed import of torchvision or timm has left: submodules whose package is gone."""
    for package in ("torchvision", "timm"):
        if package not in sys.modules:
            for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
                del sys.modules[name]
