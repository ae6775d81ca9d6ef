"""`torch.ops.spectral_vmamba.selective_scan`: what compilers, exporters and FLOP counters see.

The bodies are the portable kernels; a faster kernel registers itself per device with `.register_kernel`.
"""

from math import prod

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from spectral_vmamba.ops.selective_scan.portable import (
    selective_scan_portable,
    selective_scan_portable_backward,
)

_INPUTS = "Tensor x, Tensor delta, Tensor A, Tensor B, Tensor C, Tensor D, Tensor delta_bias, Tensor orders"


@torch.library.custom_op("spectral_vmamba::selective_scan", mutates_args=(), schema=f"({_INPUTS}) -> Tensor")
def selective_scan_op(x, delta, A, B, C, D, delta_bias, orders):
    return selective_scan_portable(x, delta, A, B, C, D, delta_bias, orders).contiguous()


@selective_scan_op.register_fake
def _(x, delta, A, B, C, D, delta_bias, orders):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


@torch.library.custom_op(
    "spectral_vmamba::selective_scan_backward",
    mutates_args=(),
    schema=f"(Tensor grad, {_INPUTS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def selective_scan_backward_op(grad, x, delta, A, B, C, D, delta_bias, orders):
    gradients = selective_scan_portable_backward(grad, x, delta, A, B, C, D, delta_bias, orders)
    return tuple(gradient.contiguous() for gradient in gradients)


@selective_scan_backward_op.register_fake
def _(grad, x, delta, A, B, C, D, delta_bias, orders):
    inputs = (x, delta, A, B, C, D, delta_bias)
    return tuple(torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor in inputs)


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
