"""The one place timm is first imported from, after making sure that torchvision, which it needs, can be imported."""

import torch

_MISSING_OPERATORS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


def import_torchvision() -> None:
    """A torchvision built for CUDA cannot load its C++ operators beside a CPU build of torch and then stops at import
    with "operator torchvision::nms does not exist". Only then are the two schemas it looks for defined, without
    kernels, and the import is tried again: all but those detection operators works."""
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name, schema in _MISSING_OPERATORS.items():
            library.define(name + schema)
        _KEPT_ALIVE.append(library)
        import torchvision  # noqa: F401


# Definitions vanish with their Library object.
_KEPT_ALIVE: list[torch.library.Library] = []

import_torchvision()

import timm  # noqa: E402

__all__ = ["timm"]
