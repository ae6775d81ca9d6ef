"""The selective scan in C++ (csrc/scan_*.cpp): one pass over the tokens per path, states recomputed in backward."""

from ctypes import Structure, byref, c_int32, c_int64, c_void_p

import torch
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.ops.native import call, pointer

_TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2}


class _Scan(Structure):
    _fields_ = (
        [(name, c_void_p) for name in ("x", "delta", "A", "B", "C", "D", "bias", "orders")]
        + [(name, c_int64) for name in ("images", "tokens", "channels", "states", "sets", "paths")]
        + [(name, c_int64) for name in ("x_image", "x_token", "delta_image", "delta_set", "delta_token")]
        + [(name, c_int32) for name in ("x_type", "delta_type", "threads", "reserved")]
    )


class _Gradients(Structure):
    _fields_ = [(name, c_void_p) for name in ("grad_y", "x", "delta", "A", "B", "C", "D", "bias")]


def selective_scan_native(
    x: Float[Tensor, "b l d"],
    delta: Float[Tensor, "b g l d"],
    A: Float[Tensor, "g d n"],
    B: Float[Tensor, "b g l n"],
    C: Float[Tensor, "b g l n"],
    D: Float[Tensor, "g d"],
    delta_bias: Float[Tensor, "g d"],
    orders: Int[Tensor, "b k l"],
) -> Float[Tensor, "b l d"]:
    """Same contract as `selective_scan_reference`, on the CPU; float32 (or float64) inside whatever the inputs are."""
    inputs = _laid_out(x, delta, A, B, C, D, delta_bias, orders)
    y = torch.empty(x.shape, dtype=inputs[2].dtype)
    call("sv_scan_forward", byref(_describe(*inputs)), pointer(y))
    return _cast(y, x.dtype)


def selective_scan_native_backward(
    grad: Float[Tensor, "b l d"],
    x: Float[Tensor, "b l d"],
    delta: Float[Tensor, "b g l d"],
    A: Float[Tensor, "g d n"],
    B: Float[Tensor, "b g l n"],
    C: Float[Tensor, "b g l n"],
    D: Float[Tensor, "g d"],
    delta_bias: Float[Tensor, "g d"],
    orders: Int[Tensor, "b k l"],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, delta, A, B, C, D, delta_bias; that of delta in the layout of `empty_delta_gradient`."""
    inputs = _laid_out(x, delta, A, B, C, D, delta_bias, orders)
    precise = inputs[2].dtype
    grad = _cast(grad, precise).contiguous()
    given = (x, delta, A, B, C, D, delta_bias)
    outputs = [torch.empty(tensor.shape, dtype=precise) for tensor in given]
    outputs[1] = empty_delta_gradient(delta, precise)
    if orders.shape[1] == 0:
        outputs[1].zero_()
    described = _Gradients(grad.data_ptr(), *(output.data_ptr() for output in outputs))
    call("sv_scan_backward", byref(_describe(*inputs)), byref(described))
    cast = [_cast(output, tensor.dtype) for output, tensor in zip(outputs, given, strict=True)]
    return cast[0], cast[1], cast[2], cast[3], cast[4], cast[5], cast[6]


def empty_delta_gradient(delta: Float[Tensor, "b g l d"], dtype: torch.dtype) -> Float[Tensor, "b g l d"]:
    """Parameter sets outermost in memory: the batched product that made delta then takes its gradient as it is."""
    b, g, length, d = delta.shape
    return torch.empty(g, b, length, d, dtype=dtype, device=delta.device).transpose(0, 1)


def _laid_out(x, delta, A, B, C, D, delta_bias, orders) -> list[Tensor]:
    precise = torch.promote_types(x.dtype, torch.float32)
    kept = (precise,) if precise is torch.float64 else (precise, torch.bfloat16)
    rows = [tensor if tensor.dtype in kept else tensor.to(precise) for tensor in (x, delta)]
    rows = [tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in rows]
    small = [_cast(tensor, precise).contiguous() for tensor in (A, B, C, D, delta_bias)]
    return [*rows, *small, _cast(orders, torch.int64).contiguous()]


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Short calls are made of many small ones: asking first is a tenth of `to`'s price."""
    return tensor if tensor.dtype is dtype else tensor.to(dtype)


def _describe(x, delta, A, B, C, D, delta_bias, orders) -> _Scan:
    images, tokens, channels = x.shape
    pointers = (tensor.data_ptr() for tensor in (x, delta, A, B, C, D, delta_bias, orders))
    sizes = (images, tokens, channels, A.shape[2], A.shape[0], orders.shape[1])
    return _Scan(
        *pointers, *sizes, *x.stride()[:2], *delta.stride()[:3], _TYPES[x.dtype], _TYPES[delta.dtype],
        torch.get_num_threads(), 0,
    )  # fmt: skip
