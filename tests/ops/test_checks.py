"""Invalid orders and shapes are errors, with every backend and in the op itself."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.ops.native import Native
from spectral_vmamba.ops.selective_scan import checks, selective_scan
from tests.support.scan_inputs import NAMES, scan_inputs


@pytest.mark.parametrize("backend", ["auto", "portable", "reference"])
@settings(deadline=None, max_examples=25)
@given(place=st.integers(0, 6), index=st.sampled_from([-1, 7, 2**40, -(2**62), "repeat"]), row=st.integers(0, 7))
def test_orders_must_be_permutations(backend, place, index, row):
    tensors, orders = scan_inputs(b=2, k=4, l=7)
    rows = orders.flatten(0, 1)
    rows[row, place] = rows[row, (place + 1) % 7] if index == "repeat" else index
    with pytest.raises(ValueError, match=rf"permutation of 0\.\.6; in image {row // 4}, path {row % 4}"):
        selective_scan(*tensors, orders, backend=backend)


def test_the_op_checks_its_orders():
    tensors, orders = scan_inputs()
    orders[0, 0, 0] = 99
    with pytest.raises(ValueError, match="index 99 is out of range"):
        torch.ops.spectral_vmamba.selective_scan(*tensors, orders)
    with pytest.raises(ValueError, match="index 99 is out of range"):
        torch.ops.spectral_vmamba.selective_scan_backward(tensors[0], *tensors, orders)


@pytest.mark.parametrize("change", ["short B", "long order", "one order for all", "no states", "gradient"])
def test_the_op_checks_its_shapes(change):
    tensors, orders = scan_inputs(b=2, l=7)
    grad = tensors[0]
    if change == "short B":
        tensors[3] = tensors[3][:, :, :3]
    elif change == "long order":
        orders = torch.arange(9).expand(2, 4, 9)
    elif change == "one order for all":
        orders = orders[:1]
    elif change == "no states":
        tensors[2], tensors[3], tensors[4] = (tensors[i][..., :0] for i in (2, 3, 4))
    else:
        grad = grad[:, :3]
    with pytest.raises(ValueError, match="expected"):
        torch.ops.spectral_vmamba.selective_scan_backward(grad, *tensors, orders)
    if change != "gradient":
        with pytest.raises(ValueError, match="expected"):
            torch.ops.spectral_vmamba.selective_scan(*tensors, orders)


def test_orders_must_be_integers():
    tensors, orders = scan_inputs()
    with pytest.raises(ValueError, match="integers"):
        selective_scan(*tensors, orders + 0.5)


def test_orders_are_checked_without_the_native_library(monkeypatch):
    monkeypatch.setattr(checks, "load_native", lambda: Native(None, "not built"))
    _, orders = scan_inputs(b=2, k=4, l=7)
    checks.check_orders(orders)
    orders[1, 2, 3] = orders[1, 2, 4]
    with pytest.raises(ValueError, match="in image 1, path 2 some indices repeat"):
        checks.check_orders(orders)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": lambda t: t[0]}, "expected x"),
        ({"delta": lambda t: t[:, :1]}, "expected delta of shape"),
        ({"B": lambda t: t[..., :0]}, "expected B of shape"),
        ({"orders": lambda t: t[:, :3]}, "divides the number of paths"),
        ({"orders": lambda t: t[:1]}, "expected orders of shape"),
    ],
)
def test_errors_name_the_input_of_a_wrong_shape(change, message):
    tensors, orders = scan_inputs()
    arguments = dict(zip([*NAMES, "orders"], [*tensors, orders], strict=True))
    for name, function in change.items():
        arguments[name] = function(arguments[name])
    with pytest.raises(ValueError, match=message):
        selective_scan(**arguments)
