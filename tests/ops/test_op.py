"""The op as compilers, exporters and FLOP counters see it."""

import shutil

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from spectral_vmamba.ops.selective_scan import selective_scan
from tests.support.scan_inputs import leaves, scan_inputs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("size", [{}, {"n": 3, "g": 2}, {"b": 1, "l": 1, "d": 1, "k": 1, "g": 1}], ids=str)
def test_opcheck(dtype, size):
    tensors, orders = scan_inputs(**size, dtype=dtype)
    torch.library.opcheck(torch.ops.spectral_vmamba.selective_scan, (*leaves(tensors), orders))
    torch.library.opcheck(
        torch.ops.spectral_vmamba.selective_scan_backward, (torch.ones_like(tensors[0]), *tensors, orders)
    )


def test_opcheck_on_strided_inputs():
    tensors, orders = scan_inputs(l=6, d=4)
    strided = [tensor.mT.contiguous().mT for tensor in tensors]
    assert not strided[0].is_contiguous()
    torch.library.opcheck(torch.ops.spectral_vmamba.selective_scan, (*leaves(strided), orders))
    assert torch.equal(selective_scan(*strided, orders), selective_scan(*tensors, orders))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch's inductor needs a C++ compiler on CPUs")
def test_inductor():
    tensors, orders = scan_inputs(l=9, d=4)
    x = tensors[0].mT.contiguous().mT
    compiled = torch.compile(lambda x: selective_scan(x.sin(), *tensors[1:], orders) * 2, fullgraph=True)
    torch.testing.assert_close(compiled(x), selective_scan(x.sin(), *tensors[1:], orders) * 2, rtol=0, atol=1e-14)


def test_compiles_as_one_graph_with_equal_gradients():
    tensors, orders = scan_inputs(l=9, g=2, n=2)

    def loss(*arguments):
        return (selective_scan(*arguments, orders) * 2).sin().sum()

    eager, compiled = leaves(tensors), leaves(tensors)
    loss(*eager).backward()
    torch.compile(loss, fullgraph=True, backend="aot_eager")(*compiled).backward()
    for a, b in zip(eager, compiled, strict=True):
        assert torch.equal(b.grad, a.grad)


def test_exports_with_a_dynamic_batch():
    class Scan(torch.nn.Module):
        def forward(self, x, delta, A, B, C, D, bias, orders):
            return selective_scan(x, delta, A, B, C, D, bias, orders)

    tensors, orders = scan_inputs(b=2)
    batch = torch.export.Dim("batch", min=1, max=64)
    batched = {"x", "delta", "B", "C", "orders"}
    names = ("x", "delta", "A", "B", "C", "D", "bias", "orders")
    shapes = {name: {0: batch} if name in batched else None for name in names}
    program = torch.export.export(Scan(), (*tensors, orders), dynamic_shapes=shapes)
    other, other_orders = scan_inputs(b=5, seed=3)
    assert torch.equal(program.module()(*other, other_orders), selective_scan(*other, other_orders))


def test_flop_formula():
    tensors, orders = scan_inputs(b=2, l=7, d=5, k=4, g=4, n=3)
    with FlopCounterMode(display=False) as counter:
        selective_scan(*tensors, orders)
    assert counter.get_total_flops() == 2 * 4 * (2 * 7 * 5) * (9 * 3 + 1)


def test_second_derivatives_of_the_op_are_an_error():
    tensors, orders = scan_inputs(l=3)
    inputs = leaves(tensors)
    (gradient,) = torch.autograd.grad(selective_scan(*inputs, orders).square().sum(), inputs[0], create_graph=True)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(gradient.sum(), inputs[0])
