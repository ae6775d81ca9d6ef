"""The two steps of the frame "moment" in C++ (csrc/pose.cpp): the same results as the torch operations of `moment`.

One pass over each image replaces about a hundred small operations. Quarter turns and directions are the same bits as
those of torch; interpolated values differ by rounding. Threads share the images of a batch.
"""

from collections.abc import Sequence
from ctypes import byref

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from spectral_vmamba.ops.native import PoseOptions, call, load_native, pointer
from spectral_vmamba.ops.tracing import may_branch


def has_native_kernel(images: Tensor) -> bool:
    """Whether the kernels can take these images: square, in float32, on the CPU, with values that torch does not trace
    or differentiate."""
    return (
        may_branch(images)
        and images.dtype == torch.float32
        and images.ndim == 4
        and images.shape[-2] == images.shape[-1]
        and images.numel() > 0
        and not _is_differentiated(images)
        and load_native().library is not None
    )


def _is_differentiated(images: Tensor) -> bool:
    return (
        (images.requires_grad and torch.is_grad_enabled())
        or torch.autograd.forward_ad._current_level >= 0
        or is_functorch_wrapped_tensor(images)
    )


def find_directions_native(
    images: Float[Tensor, "b c s s"], weights: Int[Tensor, "2 s s"], unit: float, largest: float
) -> tuple[Float[Tensor, "b c s s"], Int[Tensor, "b"], Int[Tensor, "b 2"]]:
    """The disks in the quarter frame, their quarter turns, and the sums of brightness times weight."""
    images, weights = images.contiguous(), weights.contiguous()
    turned = torch.empty_like(images)
    quarters = torch.empty(images.shape[0], dtype=torch.int64)
    sums = torch.empty(images.shape[0], 2, dtype=torch.int64)
    outputs = (pointer(tensor) for tensor in (turned, quarters, sums))
    call("sv_find_directions", byref(_options(images)), pointer(images), pointer(weights), unit, largest, *outputs)
    return turned, quarters, sums


def rotate_disks_native(
    images: Float[Tensor, "b c s s"],
    rotation: Float[Tensor, "b 2"],
    nearest: Bool[Tensor, "b"],
    blur: Sequence[float],
) -> Float[Tensor, "b c s s"]:
    """Blur, rotate by cosine and sine, and set what is outside the disk to zero.

    Bicubic, limited to the values of each channel; some images by their nearest pixels. `blur` has the center and one
    half of a symmetric kernel; (1,) for none.
    """
    images, rotation, nearest = images.contiguous(), rotation.float().contiguous(), nearest.contiguous()
    kernel, rotated = torch.tensor(blur, dtype=torch.float32), torch.empty_like(images)
    inputs = (pointer(tensor) for tensor in (images, rotation, nearest, kernel))
    call("sv_rotate_disks", byref(_options(images)), *inputs, len(blur) - 1, pointer(rotated))
    return rotated


def _options(images: Tensor) -> PoseOptions:
    count, channels, side, _ = images.shape
    return PoseOptions(count, channels, side, torch.get_num_threads(), 0)
