"""The selective scan in C++ (csrc/scan_*.cpp): one pass over the tokens per path; backward recomputes the states."""

from ctypes import byref

import torch
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba.ops.native import Scan, ScanGradients, call, pointer
from spectral_vmamba.ops.selective_scan.scan_inputs import ScanInputs

_TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2}


def selective_scan_native(inputs: ScanInputs) -> Float[Tensor, "b l d"]:
    """Same contract as `selective_scan_reference`, on the CPU; computed in float32 or float64."""
    prepared = _prepare(inputs)
    y = torch.empty(inputs.x.shape, dtype=prepared.A.dtype)
    call("sv_scan_forward", byref(_describe(prepared)), pointer(y))
    return _cast(y, inputs.x.dtype)


def selective_scan_native_backward(grad: Float[Tensor, "b l d"], inputs: ScanInputs) -> tuple[Tensor, ...]:
    """Gradients of `inputs.differentiable`; that of delta has the layout of `empty_delta_gradient`."""
    prepared = _prepare(inputs)
    precise = prepared.A.dtype
    grad = _cast(grad, precise).contiguous()
    outputs = [torch.empty(tensor.shape, dtype=precise) for tensor in inputs.differentiable]
    outputs[1] = empty_delta_gradient(inputs.delta, precise)
    if inputs.orders.shape[1] == 0:
        outputs[1].zero_()
    gradients = ScanGradients(grad.data_ptr(), *(output.data_ptr() for output in outputs))
    call("sv_scan_backward", byref(_describe(prepared)), byref(gradients))
    return tuple(_cast(output, tensor.dtype) for output, tensor in zip(outputs, inputs.differentiable, strict=True))


def empty_delta_gradient(delta: Float[Tensor, "b g l d"], dtype: torch.dtype) -> Float[Tensor, "b g l d"]:
    """Uninitialized, with parameter sets outermost in memory: the product that made delta takes this without a copy."""
    b, g, length, d = delta.shape
    return torch.empty(g, b, length, d, dtype=dtype, device=delta.device).transpose(0, 1)


def _prepare(inputs: ScanInputs) -> ScanInputs:
    """Convert to the dtypes and memory layouts that the C++ side accepts; copies nothing that fits already."""
    x, delta, A, B, C, D, delta_bias, orders = inputs
    precise = torch.promote_types(x.dtype, torch.float32)
    accepted = (precise,) if precise is torch.float64 else (precise, torch.bfloat16)
    x, delta = (tensor if tensor.dtype in accepted else tensor.to(precise) for tensor in (x, delta))
    x, delta = (tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in (x, delta))
    A, B, C, D, delta_bias = (_cast(tensor, precise).contiguous() for tensor in (A, B, C, D, delta_bias))
    return ScanInputs(x, delta, A, B, C, D, delta_bias, _cast(orders, torch.int64).contiguous())


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """`tensor.to(dtype)`, ten times cheaper when nothing changes; short scans are dominated by such calls."""
    return tensor if tensor.dtype is dtype else tensor.to(dtype)


def _describe(inputs: ScanInputs) -> Scan:
    x, delta, A, orders = inputs.x, inputs.delta, inputs.A, inputs.orders
    images, tokens, channels = x.shape
    pointers = (tensor.data_ptr() for tensor in inputs)
    sizes = (images, tokens, channels, A.shape[2], A.shape[0], orders.shape[1])
    return Scan(
        *pointers, *sizes, *x.stride()[:2], *delta.stride()[:3], _TYPES[x.dtype], _TYPES[delta.dtype],
        torch.get_num_threads(), 0,
    )  # fmt: skip
