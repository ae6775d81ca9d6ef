"""Import timm. Every module of the package that needs timm first gets it from here.

timm needs torchvision, whose import can fail; see `import_torchvision`.
"""

import torch

_MISSING_OPERATORS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


def import_torchvision() -> None:
    """Import torchvision, also when it was built for CUDA and torch was built for CPU.

    In that combination torchvision cannot load its C++ operators, and its import fails with "operator torchvision::nms
    does not exist". Only then are the two missing schemas defined, without kernels, and the import is repeated.
    Everything but these detection operators works.
    """
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name, schema in _MISSING_OPERATORS.items():
            library.define(name + schema)
        _LIBRARIES.append(library)
        import torchvision  # noqa: F401


# Definitions disappear when their Library object is garbage-collected.
_LIBRARIES: list[torch.library.Library] = []

import_torchvision()

import timm  # noqa: E402

__all__ = ["timm"]
