"""The native scan where it could go wrong in its own ways: its exp, its threads, its memory, its loading."""

import subprocess
import sys
from ctypes.util import find_library

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.ops.native import library as native_library
from spectral_vmamba.ops.selective_scan import scan_native, selective_scan
from tests.support.native import needs_native
from tests.support.scan_inputs import NAMES, leaves, scan_inputs

EPS = torch.finfo(torch.float32).eps


def spread(argument):
    """How far exp may be off beside two ulps: log₂ e has 24 bits, and without FMA its product is rounded."""
    return argument.double().abs() * (1.4e-8 + EPS / 2)


def run(tensors, orders, backend="native", weight=None):
    inputs = leaves(tensors)
    y = selective_scan(*inputs, orders, backend=backend)
    weight = torch.ones_like(y) if weight is None else weight.to(y.dtype)
    return [y.detach(), *torch.autograd.grad((y * weight).sum(), inputs, materialize_grads=True)]


def softplus_of(values):
    """One token, x = B = C = 1, D = 0: y = Δ."""
    d = len(values)
    one = torch.ones(1, 1, 1, 1)
    zero = torch.zeros(1, d)
    tokens = torch.ones(1, 1, d), values.view(1, 1, 1, d), -torch.ones(1, d, 1)
    return selective_scan(*tokens, one, one, zero, zero, torch.zeros(1, 1, 1).long(), backend="native").flatten()


@needs_native
def test_softplus_is_right_to_two_ulps_and_the_spread_of_its_exp():
    values = torch.cat([torch.linspace(-80, 40, 200_001), torch.tensor([0.0, -0.0, 1e-30, -1e-30])])
    exact = F.softplus(values.double())
    error = ((softplus_of(values).double() - exact) / exact).abs()
    assert float((error - spread(values.clamp(max=0))).max()) < 2 * EPS


@needs_native
def test_exp_is_right_to_two_ulps_and_its_spread():
    """Two tokens, the second with x = 0 and Δ = 1: y₂ = exp(A) y₁. A holds the argument itself."""
    arguments = torch.linspace(-80, 0, 100_001)
    d = len(arguments)
    Δ = torch.tensor(1.0).expm1().log()  # softplus⁻¹(1)
    x = torch.stack([torch.ones(d), torch.zeros(d)])[None]
    one, zero = torch.ones(1, 1, 2, 1), torch.zeros(1, d)
    scanned = (x, Δ.expand(1, 1, 2, d), arguments.view(1, d, 1), one, one, zero, zero)
    y = selective_scan(*scanned, torch.tensor([[[0, 1]]]), backend="native")[0].double()
    exact = torch.exp(arguments.double() * float(softplus_of(Δ[None])))
    error = (y[1] / y[0] / exact - 1).abs()
    # The argument Δ A is rounded once before exp sees it.
    assert float((error - arguments.double().abs() * EPS / 2 - spread(arguments)).max()) < 2 * EPS


@needs_native
@settings(deadline=None, max_examples=40)
@given(
    b=st.integers(0, 3),
    l=st.integers(0, 20),
    d=st.integers(0, 150),
    paths=st.sampled_from([(1, 1), (2, 1), (4, 2), (6, 6)]),
    n=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
def test_any_shape(b, l, d, paths, n, seed):  # noqa: E741
    k, g = paths
    tensors, orders = scan_inputs(b=b, l=l, d=d, k=k, g=g, n=n, seed=seed)
    for name, expected, got in zip(["y", *NAMES], run(tensors, orders, "portable"), run(tensors, orders), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11, msg=lambda m, name=name: f"{name}: {m}")


@needs_native
@pytest.mark.parametrize("n", [1, 3])
def test_chunks_of_a_long_path(n):
    """1,100 tokens of float64 are several chunks; their joins must not show."""
    tensors, orders = scan_inputs(b=1, l=1100, d=70, k=2, g=1, n=n)
    for expected, got in zip(run(tensors, orders, "portable"), run(tensors, orders), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)


@needs_native
@pytest.mark.parametrize("n", [1, 3])
def test_same_bits_for_any_number_of_threads_and_from_run_to_run(n):
    tensors, orders = scan_inputs(b=3, l=50, d=100, n=n, dtype=torch.float32)
    before = torch.get_num_threads()
    answers = []
    try:
        for threads in (1, 2, 3, 5, 5):
            torch.set_num_threads(threads)
            answers.append(run(tensors, orders))
    finally:
        torch.set_num_threads(before)
    for other in answers[1:]:
        assert all(torch.equal(a, b) for a, b in zip(answers[0], other, strict=True))


@needs_native
@pytest.mark.parametrize("size", [{"l": 9, "d": 70}, {"l": 9, "d": 5, "n": 2, "g": 2}, {"k": 0, "g": 1}], ids=str)
def test_every_output_entry_is_written(size, monkeypatch):
    """Fresh memory full of NaN must not show."""
    tensors, orders = scan_inputs(**size)
    expected = run(tensors, orders)
    empty = torch.empty
    monkeypatch.setattr(scan_native.torch, "empty", lambda *a, **k: empty(*a, **k).fill_(float("nan")))
    for a, b in zip(expected, run(tensors, orders), strict=True):
        assert torch.equal(a, b)


@needs_native
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("shift", [-1e30, -100.0, -30.0, 30.0, 100.0])
def test_extreme_steps(n, shift):
    tensors, orders = scan_inputs(l=30, d=70, n=n, dtype=torch.float32)
    tensors[1] = tensors[1] + shift
    for name, expected, got in zip(["y", *NAMES], run(tensors, orders, "reference"), run(tensors, orders), strict=True):
        # 1.2e-38 stands for what underflows, summed over channels and tokens; the rest is rounding of dozens of steps
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()) + 1e-33, msg=name)


@needs_native
def test_zeros_and_denormals():
    tensors, orders = scan_inputs(l=12, d=70, dtype=torch.float32)
    tensors[0][:] = 1e-40
    y = selective_scan(*tensors, orders, backend="native")
    expected = selective_scan(*(tensor.double() for tensor in tensors), orders, backend="reference")
    assert float(y.abs().max()) > 0
    torch.testing.assert_close(y.double(), expected, rtol=0, atol=1e-43)
    tensors[0][:] = 0
    assert not selective_scan(*tensors, orders, backend="native").any()


@needs_native
@pytest.mark.parametrize("n", [1, 2])
def test_growing_states(n):
    """A above zero is unusual, not forbidden."""
    tensors, orders = scan_inputs(l=9, d=70, n=n, dtype=torch.float32)
    tensors[2] = tensors[2].abs()
    tensors[2][:, 3] = 200.0  # e^(200 Δ) overflows
    expected, got = (run(tensors, orders, backend) for backend in ("reference", "native"))
    for a, b in zip(got, expected, strict=True):
        calm = b.isfinite() & (b.abs() < 1e30)  # where states overflow, inf − inf may come out either way
        torch.testing.assert_close(a[calm], b[calm], rtol=1e-3, atol=1e-4 * float(b[calm].abs().max()))
    assert not got[0][..., 3].isfinite().all()


@needs_native
@pytest.mark.parametrize("n", [1, 2])
def test_nan_spreads_along_its_channel_and_no_farther(n):
    tensors, orders = scan_inputs(b=2, l=10, d=70, n=n, dtype=torch.float32)
    tensors[1][1, :, 4, 7] = float("nan")
    y = selective_scan(*tensors, orders, backend="native")
    assert y[1, :, 7].isnan().any()
    y[1, :, 7] = 0
    assert y.isfinite().all()
    _, grad_x, grad_delta, *_ = run(tensors, orders)
    assert grad_delta[1, :, :, 7].isnan().any()
    assert grad_x[0].isfinite().all()
    assert grad_delta[..., :7].isfinite().all()
    assert grad_delta[..., 8:].isfinite().all()


@needs_native
def test_views_with_odd_strides():
    tensors, orders = scan_inputs(b=2, l=11, d=6, k=4, g=4, dtype=torch.float32)
    expected = run(tensors, orders)
    views = list(tensors)
    views[0] = tensors[0].transpose(1, 2).contiguous().transpose(1, 2)  # channels not adjacent
    views[1] = tensors[1].permute(1, 0, 2, 3).contiguous().permute(1, 0, 2, 3)  # as the projection leaves it
    views[3] = torch.stack([tensors[3], tensors[3]], -1)[..., 0]
    for a, b in zip(expected, run(views, orders), strict=True):
        assert torch.equal(a, b)
    shared = orders[:1].expand(2, -1, -1)
    for a, b in zip(run(tensors, shared.contiguous()), run(tensors, shared), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("backend", ["auto", "portable", "reference"])
@settings(deadline=None, max_examples=25)
@given(place=st.integers(0, 6), index=st.sampled_from([-1, 7, 2**40, -(2**62), "repeat"]), row=st.integers(0, 7))
def test_orders_that_are_no_permutations_are_refused(backend, place, index, row):
    tensors, orders = scan_inputs(b=2, k=4, l=7)
    rows = orders.flatten(0, 1)
    rows[row, place] = rows[row, (place + 1) % 7] if index == "repeat" else index
    with pytest.raises(ValueError, match=rf"permutation of 0\.\.6; in image {row // 4}, path {row % 4}"):
        selective_scan(*tensors, orders, backend=backend)


def test_the_op_itself_refuses_them_too():
    tensors, orders = scan_inputs()
    orders[0, 0, 0] = 99
    with pytest.raises(ValueError, match="index 99 is out of range"):
        torch.ops.spectral_vmamba.selective_scan(*tensors, orders)
    with pytest.raises(ValueError, match="index 99 is out of range"):
        torch.ops.spectral_vmamba.selective_scan_backward(tensors[0], *tensors, orders)


@pytest.mark.parametrize("change", ["short B", "long order", "one order for all", "no states", "gradient"])
def test_the_op_itself_checks_shapes(change):
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


@needs_native
def test_loading_leaves_denormals_alone():
    """A library linked with -ffast-math would switch the process to flush-to-zero."""
    code = """
import numpy, torch
from spectral_vmamba.ops.native import load_native
assert load_native().library is not None
assert float(torch.tensor([1e-40]) * 1.0) == float(torch.tensor([1e-40])) != 0
assert numpy.float32(1e-40) * numpy.float32(1) != 0
tiny = float("1e-310")
assert tiny * float("1") == tiny != 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


FALLS_BACK = """
import logging, torch
logging.basicConfig()
from spectral_vmamba.ops.selective_scan import selective_scan
from tests.support.scan_inputs import scan_inputs
tensors, orders = scan_inputs()
for _ in range(2):
    assert selective_scan(*tensors, orders).isfinite().all()
try:
    selective_scan(*tensors, orders, backend="native")
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("absent", "does not load"), ("broken", "does not load"), ("foreign", "not this package's library")],
)
def test_without_a_usable_library_torch_runs_and_says_so_once(kind, reason, tmp_path, monkeypatch):
    paths = {"absent": tmp_path / "none.so", "broken": tmp_path / "text.so", "foreign": find_library("c")}
    (tmp_path / "text.so").write_text("no library")
    monkeypatch.setenv("SPECTRAL_VMAMBA_LIBRARY", str(paths[kind]))
    done = subprocess.run([sys.executable, "-c", FALLS_BACK], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("native CPU kernels are off") == 1
    assert reason in done.stderr
    assert "backend 'native' is not available" in done.stdout


@needs_native
def test_a_library_of_another_version_is_refused(monkeypatch):
    path = native_library._find()
    monkeypatch.setattr(native_library, "ABI", 99)
    loaded = native_library._load(path)
    assert loaded.library is None
    assert "another version" in loaded.reason
    assert "reinstall" in loaded.reason
