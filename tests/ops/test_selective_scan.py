"""Every selective scan against the sequential reference, and the reference against the equations."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from spectral_vmamba.ops.selective_scan import selective_scan
from tests.support.native import needs_native
from tests.support.scan_inputs import NAMES, leaves, scan_inputs
from tests.support.tolerances import assert_relatively_close

FAST = ["portable", pytest.param("native", marks=needs_native)]
SIZES = [
    {"l": 1},
    {"l": 2, "d": 1},
    {"l": 7, "d": 5, "n": 3},
    {"l": 63, "d": 17},
    {"l": 64, "d": 3, "n": 2, "b": 1, "k": 1, "g": 1},
    {"l": 196, "d": 24, "k": 8, "g": 8},
    {"l": 49, "d": 8, "k": 8, "g": 4},
    {"l": 5, "k": 6, "g": 2},
    {"l": 3, "d": 70, "b": 71, "n": 2},
]


def run(backend, tensors, orders, weight):
    inputs = leaves(tensors)
    y = selective_scan(*inputs, orders, backend=backend)
    gradients = torch.autograd.grad((y * weight).sum(), inputs, materialize_grads=True)
    return [y.detach(), *gradients]


def test_the_reference_equals_the_equations_by_hand():
    """Two tokens, one channel, one state, one path that visits token 1 first."""
    x, delta = torch.tensor([[[2.0], [3.0]]]).double(), torch.tensor([[[[0.1], [0.2]]]], dtype=torch.float64)
    A, D, bias = (torch.tensor(values, dtype=torch.float64) for values in ([[[-0.5]]], [[0.7]], [[0.05]]))
    B, C = (torch.tensor(values, dtype=torch.float64) for values in ([[[[1.5], [-1.0]]]], [[[[0.3], [2.0]]]]))
    Δ0, Δ1 = (F.softplus(torch.tensor(value, dtype=torch.float64)) for value in (0.1 + 0.05, 0.2 + 0.05))
    h1 = Δ1 * -1.0 * 3.0
    h0 = torch.exp(Δ0 * -0.5) * h1 + Δ0 * 1.5 * 2.0
    expected = torch.stack([0.3 * h0 + 0.7 * 2.0, 2.0 * h1 + 0.7 * 3.0])
    y = selective_scan(x, delta, A, B, C, D, bias, torch.tensor([[[1, 0]]]), backend="reference")
    torch.testing.assert_close(y.flatten(), expected, rtol=0, atol=1e-15)  # measured: 0 or one rounding


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_forward_and_gradients_equal_the_reference(backend, size):
    tensors, orders = scan_inputs(**size)
    weight = torch.randn(tensors[0].shape, dtype=torch.float64)
    expected, actual = (run(name, tensors, orders, weight) for name in ("reference", backend))
    for name, a, b in zip(["y", *NAMES], expected, actual, strict=True):
        assert_relatively_close(b, a, 1e-14, name)  # measured: 1.2e-15


@pytest.mark.parametrize("backend", ["reference", *FAST])
def test_every_input_of_a_single_token_has_a_gradient(backend):
    """With one token there is no step from a previous state: the gradient of A is zero, not missing."""
    tensors, orders = scan_inputs(l=1)
    inputs = leaves(tensors)
    selective_scan(*inputs, orders, backend=backend).sum().backward()
    gradients = {name: tensor.grad for name, tensor in zip(NAMES, inputs, strict=True)}
    assert [name for name, gradient in gradients.items() if gradient is None] == []
    assert gradients["A"].count_nonzero() == 0
    assert all(gradient.count_nonzero() for name, gradient in gradients.items() if name != "A")


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("states", [1, 2])
def test_float32_is_as_accurate_as_the_sequential_loop(backend, states):
    """The error against float64 is at most twice that of the plain float32 loop (measured: at most 1.11 times).

    Root mean squares, because the largest of a few hundred rounding errors varies by chance.
    """
    names = ["y", *NAMES]
    errors = {name: [0.0, 0.0] for name in names}
    for seed in range(2):
        tensors, orders = scan_inputs(l=196, d=24, k=8, g=8, n=states, seed=seed)
        weight = torch.randn(tensors[0].shape, dtype=torch.float64)
        exact = run("portable", tensors, orders, weight)
        single = [tensor.float() for tensor in tensors]
        for side, name in enumerate(("reference", backend)):
            for which, a, b in zip(names, exact, run(name, single, orders, weight.float()), strict=True):
                errors[which][side] += float((b.double() - a).square().sum())
    for name, (loop, fast) in errors.items():
        assert fast <= 4 * loop, name


def test_gradients_by_finite_differences():
    tensors, orders = scan_inputs(l=5, d=2, k=2, g=2, n=2)
    assert torch.autograd.gradcheck(lambda *t: selective_scan(*t, orders), leaves(tensors))


@pytest.mark.parametrize("backend", ["reference", *FAST])
@pytest.mark.parametrize("size", [{"b": 0}, {"l": 0}, {"d": 0}, {"k": 0, "g": 1}, {"k": 0, "g": 0}], ids=str)
def test_empty_axes(backend, size):
    tensors, orders = scan_inputs(**size)
    inputs = leaves(tensors)
    y = selective_scan(*inputs, orders, backend=backend)
    assert y.shape == tensors[0].shape
    assert not y.detach().any()
    if y.requires_grad:
        gradients = torch.autograd.grad(y.sum(), inputs, allow_unused=True)
        assert all(gradient is None or gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("backend", ["reference", *FAST])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_inputs_accumulate_in_float32(backend, dtype):
    """The result is that of float32, rounded once at the end. A sum of 8 paths in bf16 would differ more."""
    tensors, orders = scan_inputs(l=196, d=8, k=8, g=8)
    low = [tensor.to(dtype) for tensor in tensors]
    y = selective_scan(*low, orders, backend=backend)
    in_float32 = selective_scan(*(tensor.float() for tensor in low), orders, backend=backend)
    assert y.dtype is dtype
    assert torch.equal(y, in_float32.to(dtype))
    inputs = leaves(low)
    gradients = torch.autograd.grad(selective_scan(*inputs, orders, backend=backend).sum(), inputs)
    assert all(gradient.dtype is dtype and gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("backend", FAST)
def test_bfloat16_projections_under_autocast(backend):
    tensors, orders = scan_inputs(l=49, d=8, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        delta = tensors[1] @ torch.eye(8)
        assert delta.dtype is torch.bfloat16
        y = selective_scan(tensors[0], delta, *tensors[2:], orders, backend=backend)
    assert y.dtype is torch.float32
    expected = selective_scan(tensors[0], delta.float(), *tensors[2:], orders, backend="reference")
    assert_relatively_close(y, expected, 6e-7)  # measured: 6.4e-8


def test_consecutive_paths_share_a_parameter_set():
    """g = k/2 equals g = k with every set repeated."""
    tensors, orders = scan_inputs(k=6, g=3)
    x, delta, A, B, C, D, bias = tensors
    twice = [x, delta.repeat_interleave(2, 1), A.repeat_interleave(2, 0)]
    twice += [
        B.repeat_interleave(2, 1),
        C.repeat_interleave(2, 1),
        D.repeat_interleave(2, 0),
        bias.repeat_interleave(2, 0),
    ]
    assert torch.equal(selective_scan(*tensors, orders), selective_scan(*twice, orders))


def test_raster_and_cross_orders_shared_by_the_batch():
    """The four orders of VMamba's cross scan: equal to permuting the tokens and scanning them in sequence."""
    height, width = 3, 4
    cells = torch.arange(height * width).view(height, width)
    cross = torch.stack([cells.flatten(), cells.T.flatten(), cells.flatten().flip(0), cells.T.flatten().flip(0)])
    tensors, _ = scan_inputs(l=12)
    y = selective_scan(*tensors, cross.expand(2, 4, 12))
    x, delta, A, B, C, D, bias = tensors
    sequence = torch.arange(12).expand(2, 1, 12)
    expected = torch.zeros_like(x)
    for i, order in enumerate(cross):
        s = slice(i, i + 1)
        permuted = (x[:, order], delta[:, s, order], A[s], B[:, s, order], C[:, s, order], D[s], bias[s])
        expected[:, order] += selective_scan(*permuted, sequence, backend="reference")
    assert_relatively_close(y, expected, 2e-15)  # measured: 1.5e-16


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**16), length=st.integers(2, 12))
def test_renumbering_the_tokens_renumbers_the_output(seed, length):
    """y of permuted tokens along permuted orders is the permuted y."""
    tensors, orders = scan_inputs(l=length, seed=seed)
    names = torch.randperm(length, generator=torch.Generator().manual_seed(seed + 1))
    positions = names.argsort()
    x, delta, A, B, C, D, bias = tensors
    renumbered = (x[:, names], delta[:, :, names], A, B[:, :, names], C[:, :, names], D, bias)
    y = selective_scan(*renumbered, positions[orders])
    assert torch.equal(y, selective_scan(*tensors, orders)[:, names])


def test_long_sequences_with_strong_decay_stay_finite():
    tensors, orders = scan_inputs(l=3000, d=2, k=2, g=2, dtype=torch.float32)
    tensors[1] = tensors[1] + 30.0  # Δ ≈ 30: decays underflow to 0
    y = selective_scan(*tensors, orders)
    assert_relatively_close(y, selective_scan(*tensors, orders, backend="reference"), 5e-7)  # measured: 5.8e-8
