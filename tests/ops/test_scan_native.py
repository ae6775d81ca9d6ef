"""The native scan: accuracy of its exp, chunks, threads, memory, extreme inputs."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.ops.selective_scan import scan_native, selective_scan
from tests.support.native import needs_native
from tests.support.scan_inputs import NAMES, leaves, scan_inputs
from tests.support.tolerances import assert_relatively_close

pytestmark = needs_native
EPS = torch.finfo(torch.float32).eps


def spread(argument):
    """The error of exp beyond two ulps: log₂ e has 24 bits, and without FMA its product is rounded."""
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


def test_accuracy_of_softplus():
    values = torch.cat([torch.linspace(-80, 40, 200_001), torch.tensor([0.0, -0.0, 1e-30, -1e-30])])
    exact = F.softplus(values.double())
    error = ((softplus_of(values).double() - exact) / exact).abs()
    assert float((error - spread(values.clamp(max=0))).max()) < 2 * EPS  # measured: 1.1


def test_accuracy_of_exp():
    """Two tokens, the second with x = 0 and Δ = 1: y₂ = exp(A) y₁. A is the argument."""
    arguments = torch.linspace(-80, 0, 100_001)
    d = len(arguments)
    Δ = torch.tensor(1.0).expm1().log()  # softplus⁻¹(1)
    x = torch.stack([torch.ones(d), torch.zeros(d)])[None]
    one, zero = torch.ones(1, 1, 2, 1), torch.zeros(1, d)
    scanned = (x, Δ.expand(1, 1, 2, d), arguments.view(1, d, 1), one, one, zero, zero)
    y = selective_scan(*scanned, torch.tensor([[[0, 1]]]), backend="native")[0].double()
    exact = torch.exp(arguments.double() * float(softplus_of(Δ[None])))
    error = (y[1] / y[0] / exact - 1).abs()
    # The argument Δ A is rounded once before exp.
    assert float((error - arguments.double().abs() * EPS / 2 - spread(arguments)).max()) < 2 * EPS  # measured: 0.3


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
    results = run(tensors, orders, "portable"), run(tensors, orders)
    for name, expected, actual in zip(["y", *NAMES], *results, strict=True):
        assert_relatively_close(actual, expected, 2e-14, name)  # measured over 150 shapes: 2.5e-15


@pytest.mark.parametrize("n", [1, 3])
def test_chunks_of_a_long_path(n):
    """1,100 tokens of float64 are several chunks."""
    tensors, orders = scan_inputs(b=1, l=1100, d=70, k=2, g=1, n=n)
    for expected, actual in zip(run(tensors, orders, "portable"), run(tensors, orders), strict=True):
        assert_relatively_close(actual, expected, 2e-14)  # measured: 2.7e-15


@pytest.mark.parametrize("n", [1, 3])
def test_same_bits_for_any_number_of_threads_and_from_run_to_run(n):
    tensors, orders = scan_inputs(b=3, l=50, d=100, n=n, dtype=torch.float32)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 5, 5):
            torch.set_num_threads(threads)
            results.append(run(tensors, orders))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("size", [{"l": 9, "d": 70}, {"l": 9, "d": 5, "n": 2, "g": 2}, {"k": 0, "g": 1}], ids=str)
def test_every_output_entry_is_written(size, monkeypatch):
    """New memory is filled with NaN."""
    tensors, orders = scan_inputs(**size)
    expected = run(tensors, orders)
    empty = torch.empty
    monkeypatch.setattr(scan_native.torch, "empty", lambda *a, **k: empty(*a, **k).fill_(float("nan")))
    for a, b in zip(expected, run(tensors, orders), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("shift", [-1e30, -100.0, -30.0, 30.0, 100.0])
def test_extreme_steps(n, shift):
    tensors, orders = scan_inputs(l=30, d=70, n=n, dtype=torch.float32)
    tensors[1] = tensors[1] + shift
    results = run(tensors, orders, "reference"), run(tensors, orders)
    for name, expected, actual in zip(["y", *NAMES], *results, strict=True):
        # Measured: 7.6e-7 of the largest value; where everything underflows, 4.8e-36.
        tolerance = 7e-6 * float(expected.abs().max()) + 4e-35
        torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance, msg=name)


def test_zeros_and_denormals():
    tensors, orders = scan_inputs(l=12, d=70, dtype=torch.float32)
    tensors[0][:] = 1e-40
    y = selective_scan(*tensors, orders, backend="native")
    expected = selective_scan(*(tensor.double() for tensor in tensors), orders, backend="reference")
    assert float(y.abs().max()) > 0
    torch.testing.assert_close(y.double(), expected, rtol=0, atol=7e-44)  # measured: 7.7e-45
    tensors[0][:] = 0
    assert not selective_scan(*tensors, orders, backend="native").any()


@pytest.mark.parametrize("n", [1, 2])
def test_growing_states(n):
    """Positive A is unusual but allowed."""
    tensors, orders = scan_inputs(l=9, d=70, n=n, dtype=torch.float32)
    tensors[2] = tensors[2].abs()
    tensors[2][:, 3] = 200.0  # e^(200 Δ) overflows
    expected, actual = (run(tensors, orders, backend) for backend in ("reference", "native"))
    for a, b in zip(actual, expected, strict=True):
        moderate = b.isfinite() & (b.abs() < 1e30)  # the result of inf − inf is arbitrary
        assert_relatively_close(a[moderate], b[moderate], 4e-5)  # measured: 4.5e-6
    assert not actual[0][..., 3].isfinite().all()


@pytest.mark.parametrize("n", [1, 2])
def test_nan_stays_in_its_channel(n):
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


def test_views_with_odd_strides():
    tensors, orders = scan_inputs(b=2, l=11, d=6, k=4, g=4, dtype=torch.float32)
    expected = run(tensors, orders)
    views = list(tensors)
    views[0] = tensors[0].transpose(1, 2).contiguous().transpose(1, 2)  # channels not adjacent
    views[1] = (
        tensors[1].permute(1, 0, 2, 3).contiguous().permute(1, 0, 2, 3)
    )  # the layout that the projection produces
    views[3] = torch.stack([tensors[3], tensors[3]], -1)[..., 0]
    for a, b in zip(expected, run(views, orders), strict=True):
        assert torch.equal(a, b)
    shared = orders[:1].expand(2, -1, -1)
    for a, b in zip(run(tensors, shared.contiguous()), run(tensors, shared), strict=True):
        assert torch.equal(a, b)
