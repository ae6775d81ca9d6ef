"""`torch.ops.spectral_vmamba.selective_scan`: what compilers, exporters and FLOP counters see.

The bodies are the portable kernels; on the CPU the native ones take their place where they are installed.
"""

from math import prod

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from spectral_vmamba.ops.native import load_native, notice_missing
from spectral_vmamba.ops.selective_scan.checks import check_orders, check_shapes
from spectral_vmamba.ops.selective_scan.native import (
    empty_delta_gradient,
    selective_scan_native,
    selective_scan_native_backward,
)
from spectral_vmamba.ops.selective_scan.portable import selective_scan_portable, selective_scan_portable_backward

_INPUTS = "Tensor x, Tensor delta, Tensor A, Tensor B, Tensor C, Tensor D, Tensor delta_bias, Tensor orders"


@torch.library.custom_op("spectral_vmamba::selective_scan", mutates_args=(), schema=f"({_INPUTS}) -> Tensor")
def selective_scan_op(x, delta, A, B, C, D, delta_bias, orders):
    check_shapes(x, delta, A, B, C, D, delta_bias, orders)
    return selective_scan_portable(x, delta, A, B, C, D, delta_bias, orders).contiguous()


@selective_scan_op.register_kernel("cpu")
def _(x, delta, A, B, C, D, delta_bias, orders):
    check_shapes(x, delta, A, B, C, D, delta_bias, orders)
    check_orders(orders)
    if load_native().library is not None:
        return selective_scan_native(x, delta, A, B, C, D, delta_bias, orders)
    notice_missing()
    return selective_scan_portable(x, delta, A, B, C, D, delta_bias, orders).contiguous()


@selective_scan_op.register_fake
def _(x, delta, A, B, C, D, delta_bias, orders):
    check_shapes(x, delta, A, B, C, D, delta_bias, orders)
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


@torch.library.custom_op(
    "spectral_vmamba::selective_scan_backward",
    mutates_args=(),
    schema=f"(Tensor grad, {_INPUTS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def selective_scan_backward_op(grad, x, delta, A, B, C, D, delta_bias, orders):
    return _portable_backward(grad, x, delta, A, B, C, D, delta_bias, orders)


@selective_scan_backward_op.register_kernel("cpu")
def _(grad, x, delta, A, B, C, D, delta_bias, orders):
    check_shapes(x, delta, A, B, C, D, delta_bias, orders)
    check_orders(orders)
    if grad.shape != x.shape:
        raise ValueError(f"expected a gradient of shape {tuple(x.shape)}, got {tuple(grad.shape)}")
    if load_native().library is None:
        return _portable_backward(grad, x, delta, A, B, C, D, delta_bias, orders)
    return selective_scan_native_backward(grad, x, delta, A, B, C, D, delta_bias, orders)


def _portable_backward(grad, x, delta, A, B, C, D, delta_bias, orders) -> tuple[Tensor, ...]:
    gradients = selective_scan_portable_backward(grad, x, delta, A, B, C, D, delta_bias, orders)
    laid_out = [gradient.contiguous() for gradient in gradients]
    laid_out[1] = empty_delta_gradient(delta, delta.dtype).copy_(gradients[1])
    return tuple(laid_out)


@selective_scan_backward_op.register_fake
def _(grad, x, delta, A, B, C, D, delta_bias, orders):
    inputs = (x, delta, A, B, C, D, delta_bias)
    empty = [torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor in inputs]
    empty[1] = empty_delta_gradient(delta, delta.dtype)
    return tuple(empty)


def _save(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad: Tensor):
    return (*selective_scan_backward_op(grad, *ctx.saved_tensors), None)


selective_scan_op.register_autograd(_backward, setup_context=_save)


@register_flop_formula(torch.ops.spectral_vmamba.selective_scan)
def selective_scan_flops(
    x_shape, delta_shape, A_shape, B_shape, C_shape, D_shape, bias_shape, orders_shape, **_
) -> int:
    """9·l·d·n + l·d per path, the rule of the Mamba authors. It is stated in the field's unit, multiply-adds, of which
    torch's counter counts two each."""
    return 2 * orders_shape[1] * prod(x_shape) * (9 * A_shape[-1] + 1)
