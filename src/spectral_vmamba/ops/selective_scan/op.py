"""`torch.ops.spectral_vmamba.selective_scan`: the scan as compilers, exporters and FLOP counters see it.

The bodies are the portable kernels. On the CPU the native kernels replace them if they are installed.
"""

from math import prod

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from spectral_vmamba.ops.native import load_native, notice_missing
from spectral_vmamba.ops.selective_scan.checks import check_orders, check_shapes
from spectral_vmamba.ops.selective_scan.portable import selective_scan_portable, selective_scan_portable_backward
from spectral_vmamba.ops.selective_scan.scan_inputs import ScanInputs
from spectral_vmamba.ops.selective_scan.scan_native import (
    empty_delta_gradient,
    selective_scan_native,
    selective_scan_native_backward,
)

_SCHEMA = ", ".join(f"Tensor {name}" for name in ScanInputs._fields)


@torch.library.custom_op("spectral_vmamba::selective_scan", mutates_args=(), schema=f"({_SCHEMA}) -> Tensor")
def selective_scan_op(*tensors):
    inputs = ScanInputs(*tensors)
    check_shapes(inputs)
    return selective_scan_portable(inputs).contiguous()


@selective_scan_op.register_kernel("cpu")
def _(*tensors):
    inputs = ScanInputs(*tensors)
    check_shapes(inputs)
    check_orders(inputs.orders)
    if load_native().library is not None:
        return selective_scan_native(inputs)
    notice_missing()
    return selective_scan_portable(inputs).contiguous()


@selective_scan_op.register_fake
def _(*tensors):
    inputs = ScanInputs(*tensors)
    check_shapes(inputs)
    return torch.empty(inputs.x.shape, dtype=inputs.x.dtype, device=inputs.x.device)


@torch.library.custom_op(
    "spectral_vmamba::selective_scan_backward",
    mutates_args=(),
    schema=f"(Tensor grad, {_SCHEMA}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def selective_scan_backward_op(grad, *tensors):
    return _portable_backward(grad, ScanInputs(*tensors))


@selective_scan_backward_op.register_kernel("cpu")
def _(grad, *tensors):
    inputs = ScanInputs(*tensors)
    check_shapes(inputs)
    check_orders(inputs.orders)
    if grad.shape != inputs.x.shape:
        raise ValueError(f"expected a gradient of shape {tuple(inputs.x.shape)}, got {tuple(grad.shape)}")
    if load_native().library is None:
        return _portable_backward(grad, inputs)
    return selective_scan_native_backward(grad, inputs)


def _portable_backward(grad: Tensor, inputs: ScanInputs) -> tuple[Tensor, ...]:
    """With the memory layouts of the native kernel."""
    gradients = selective_scan_portable_backward(grad, inputs)
    outputs = [gradient.contiguous() for gradient in gradients]
    outputs[1] = empty_delta_gradient(inputs.delta, inputs.delta.dtype).copy_(gradients[1])
    return tuple(outputs)


@selective_scan_backward_op.register_fake
def _(grad, *tensors):
    inputs = ScanInputs(*tensors)
    empty = [torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor in inputs.differentiable]
    empty[1] = empty_delta_gradient(inputs.delta, inputs.delta.dtype)
    return tuple(empty)


def _save(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad: Tensor):
    return (*selective_scan_backward_op(grad, *ctx.saved_tensors), None)


selective_scan_op.register_autograd(_backward, setup_context=_save)


@register_flop_formula(torch.ops.spectral_vmamba.selective_scan)
def selective_scan_flops(*shapes, **_) -> int:
    """9·l·d·n + l·d per path, the rule of the Mamba authors, in multiply-adds; torch counts two FLOPs for each."""
    x, _, A, *_, orders = shapes
    return 2 * orders[1] * prod(x) * (9 * A[-1] + 1)
