"""The public function, and the choice of the backend that runs it."""

import os
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from spectral_vmamba.ops.native import load_native
from spectral_vmamba.ops.selective_scan.checks import check_orders, check_shapes
from spectral_vmamba.ops.selective_scan.op import selective_scan_op
from spectral_vmamba.ops.selective_scan.portable import selective_scan_portable
from spectral_vmamba.ops.selective_scan.reference import selective_scan_reference
from spectral_vmamba.ops.selective_scan.scan_inputs import ScanInputs

Backend = Literal["auto", "reference", "portable", "native"]
BACKENDS: tuple[str, ...] = get_args(Backend)
ENVIRONMENT_VARIABLE = "SPECTRAL_VMAMBA_BACKEND"


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
    """Scan the tokens along every order and sum the outputs in grid order.

    For each path, with t running over the tokens in its order::

        Δ_t = softplus(delta_t + delta_bias)
        h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t x_t,   h_{−1} = 0
        y_t = C_t·h_t + D x_t

    All inputs are in grid order; only the scan follows the orders. The g parameter sets are assigned to the k paths in
    consecutive groups: with g = k every path has its own set, with g = k/2 paths (0, 1) share the first, (2, 3) the
    second, and so on. Each row of `orders` must be a permutation of 0..l−1; on the CPU anything else raises a
    ValueError.

    Cost: O(k·l·d·n). bf16 and fp16 inputs are computed in float32; the output has the dtype of `x`. Gradients flow to
    every input but `orders`; second derivatives require `backend="reference"` or `"portable"`.

    >>> import torch
    >>> from spectral_vmamba import selective_scan
    >>> b, g, l, d, n = 2, 1, 5, 4, 1
    >>> x, delta, A = torch.rand(b, l, d), torch.rand(b, g, l, d), -torch.rand(g, d, n)
    >>> B, C, D, bias = torch.rand(b, g, l, n), torch.rand(b, g, l, n), torch.rand(g, d), torch.rand(g, d)
    >>> orders = torch.arange(l).expand(b, 1, l)  # one path: the tokens as they are
    >>> selective_scan(x, delta, A, B, C, D, bias, orders).shape
    torch.Size([2, 5, 4])
    """
    if not torch.compiler.is_compiling():  # a compiled graph contains the backend chosen when it was traced
        backend = resolve_backend(backend)
        if backend == "native" and x.device.type != "cpu":
            raise ValueError(f"backend 'native' runs on the CPU, the tensors are on {x.device}; use 'auto'")
    inputs = ScanInputs(x, delta, A, B, C, D, delta_bias, orders)
    if backend in ("auto", "native"):
        return selective_scan_op(*inputs)  # checks its inputs itself
    check_shapes(inputs)
    if x.device.type == "cpu" and not torch.compiler.is_compiling():
        check_orders(orders)
    return selective_scan_portable(inputs) if backend == "portable" else selective_scan_reference(inputs)


def resolve_backend(backend: str = "auto") -> Backend:
    """The backend that `backend` stands for: `auto` defers to SPECTRAL_VMAMBA_BACKEND.

    Raises a ValueError for an unknown or unavailable backend.
    """
    chosen = os.environ.get(ENVIRONMENT_VARIABLE, "auto") if backend == "auto" else backend
    if chosen not in BACKENDS:
        raise ValueError(f"unknown backend {chosen!r}; expected one of {', '.join(BACKENDS)}")
    if chosen in missing_backends():
        raise ValueError(f"backend {chosen!r} is not available: {missing_backends()[chosen]}")
    return chosen  # pyright: ignore[reportReturnType]


def missing_backends() -> dict[str, str]:
    """Backends that this installation lacks, each with the reason."""
    reason = load_native().reason
    return {"native": reason} if reason else {}
