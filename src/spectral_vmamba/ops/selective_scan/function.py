"""The public function: checks shapes, picks a backend."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.ops.selective_scan.backends import Backend, resolve_backend
from spectral_vmamba.ops.selective_scan.checks import check_orders, check_shapes
from spectral_vmamba.ops.selective_scan.op import selective_scan_op
from spectral_vmamba.ops.selective_scan.portable import selective_scan_portable
from spectral_vmamba.ops.selective_scan.reference import selective_scan_reference

_IMPLEMENTATIONS = {
    "auto": selective_scan_op,
    "native": selective_scan_op,
    "portable": selective_scan_portable,
    "reference": selective_scan_reference,
}


def selective_scan(
    x: Float[Tensor, "b l d"],
    delta: Float[Tensor, "b g l d"],
    A: Float[Tensor, "g d n"],
    B: Float[Tensor, "b g l n"],
    C: Float[Tensor, "b g l n"],
    D: Float[Tensor, "g d"],
    delta_bias: Float[Tensor, "g d"],
    orders: Int[Tensor, "b k l"],
    backend: Backend = "auto",
) -> Float[Tensor, "b l d"]:
    """Scan the tokens along every order and add the outputs up in grid order.

    For each path, with t running over the tokens in its order::

        Δ_t = softplus(delta_t + delta_bias)
        h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t x_t,   h_{−1} = 0
        y_t = C_t·h_t + D x_t

    All inputs are in grid order; only the scan walks the orders. The g parameter sets are dealt to the k paths in runs:
    with g = k every path has its own, with g = k/2 paths (0, 1) share the first, (2, 3) the second, and so on. Each row
    of `orders` must be a permutation of 0..l−1 (raster, cross and spectral orders alike); on the CPU anything else is a
    ValueError.

    Cost: O(k·l·d·n). bf16/fp16 inputs are computed in float32; the output has the dtype of `x`. Gradients flow to every
    input but `orders`; second derivatives only with `backend="reference"` or `"portable"`.
    """
    if not torch.compiler.is_compiling():  # inside a graph the choice was made when the graph was
        backend = resolve_backend(backend)
        if backend == "native" and x.device.type != "cpu":
            raise ValueError(f"backend 'native' runs on the CPU, the tensors are on {x.device}; use 'auto'")
    if backend in ("portable", "reference"):  # the op checks by itself
        check_shapes(x, delta, A, B, C, D, delta_bias, orders)
        if x.device.type == "cpu" and not torch.compiler.is_compiling():
            check_orders(orders)
    return _IMPLEMENTATIONS[backend](x, delta, A, B, C, D, delta_bias, orders)
