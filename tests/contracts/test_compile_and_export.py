"""Every registered model compiles to one graph and exports."""

import pytest
import torch

from spectral_vmamba.testing import activate_scan
from tests.support.models import ONE_PER_FAMILY, build, example_images, mark_except, shallow_options
from tests.support.tolerances import assert_relatively_close

# Compiling a model takes seconds.
every_family = pytest.mark.parametrize("name", mark_except(ONE_PER_FAMILY, pytest.mark.slow))


def compile_to_one_graph(model):
    torch.compiler.reset()  # torch refuses to compile the same code for more than eight models
    return torch.compile(model, fullgraph=True, backend="aot_eager")


@every_family
def test_compiles_to_one_graph(name):
    model = build(name, **shallow_options(name)).eval()
    compiled = compile_to_one_graph(model)
    with torch.no_grad():
        actual, expected = compiled(example_images(name)), model(example_images(name))
    assert_relatively_close(actual, expected, 1.5e-6)  # measured: 1.6e-7


@pytest.mark.parametrize("name", mark_except(["spectral_vmamba_nano"], pytest.mark.slow))
def test_compiles_to_one_graph_in_training(name):
    """Without drop path, which draws other random numbers in a compiled graph."""
    model = activate_scan(build(name, **shallow_options(name), drop_path_rate=0.0)).train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    compiled = compile_to_one_graph(model)
    actual = torch.autograd.grad(compiled(example_images(name)).square().sum(), parameters)
    expected = torch.autograd.grad(model(example_images(name)).square().sum(), parameters)
    for a, b in zip(actual, expected, strict=True):
        assert_relatively_close(a, b, 1e-5)  # measured: 1.6e-6


@every_family
def test_exports_with_a_dynamic_batch(name):
    model = build(name, **shallow_options(name)).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (example_images(name, 2),), dynamic_shapes=({0: batch},))
    for size in (1, 5):
        x = example_images(name, size)
        assert_relatively_close(program.module()(x), model(x), 1e-6)  # measured: 0
