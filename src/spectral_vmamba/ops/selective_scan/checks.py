"""Checks that run before any kernel: shapes fit and orders are permutations, so no kernel reads outside its arrays."""

from ctypes import c_int64

import torch
from jaxtyping import Int
from torch import Tensor

from spectral_vmamba.ops.native import call, load_native, pointer
from spectral_vmamba.ops.selective_scan.scan_inputs import ScanInputs


def check_orders(orders: Int[Tensor, "b k l"]) -> None:
    """Raise a ValueError that names the first row that is not a permutation of 0..l−1. CPU: O(b·k·l)."""
    if orders.is_floating_point() or orders.is_complex():
        raise ValueError(f"expected orders of integers, got {orders.dtype}")
    if not _are_permutations(orders):
        raise ValueError(_describe_problem(orders))


def _are_permutations(orders: Tensor) -> bool:
    if orders.device.type == "cpu" and load_native().library is not None:
        rows = orders.to(torch.int64).contiguous()
        sizes = c_int64(rows.shape[0] * rows.shape[1]), c_int64(rows.shape[2])
        try:
            call("sv_check_orders", pointer(rows), *sizes)
        except ValueError:
            return False
        return True
    return bool((orders.sort(-1).values == torch.arange(orders.shape[-1], device=orders.device)).all())


def _describe_problem(orders: Tensor) -> str:
    length = orders.shape[-1]
    wrong = (orders.sort(-1).values != torch.arange(length, device=orders.device)).any(-1)
    image, path = wrong.nonzero()[0].tolist()
    row = orders[image, path]
    outside = row[(row < 0) | (row >= length)]
    problem = f"index {int(outside[0])} is out of range" if len(outside) else "some indices repeat and some are missing"
    return (
        f"expected each row of orders to be a permutation of 0..{length - 1}; in image {image}, path {path} {problem}"
    )


def check_shapes(inputs: ScanInputs) -> None:
    """Raise a ValueError that names the first input whose shape does not fit the others."""
    x, delta, A, B, C, D, delta_bias, orders = inputs
    if x.dim() != 3 or A.dim() != 3 or orders.dim() != 3:
        raise ValueError(
            f"expected x (b, l, d), A (g, d, n) and orders (b, k, l), "
            f"got {tuple(x.shape)}, {tuple(A.shape)} and {tuple(orders.shape)}"
        )
    b, length, d = x.shape
    sets, _, states = A.shape
    paths = orders.shape[1]
    expected = {
        "delta": (delta, (b, sets, length, d)),
        "A": (A, (sets, d, states)),
        "B": (B, (b, sets, length, states)),
        "C": (C, (b, sets, length, states)),
        "D": (D, (sets, d)),
        "delta_bias": (delta_bias, (sets, d)),
        "orders": (orders, (b, paths, length)),
    }
    for name, (tensor, shape) in expected.items():
        if tensor.shape != shape:
            raise ValueError(f"expected {name} of shape {shape}, got {tuple(tensor.shape)}, for x {tuple(x.shape)}")
    if states == 0 or (paths and (sets == 0 or paths % sets)):
        raise ValueError(
            f"expected at least one state and a number of parameter sets that divides the number of paths, "
            f"got {states} states and {sets} sets for {paths} paths"
        )
