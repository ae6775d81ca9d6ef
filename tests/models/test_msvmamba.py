"""MSVMamba against its published equations, and its checkpoints, which stack two parameter sets."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from spectral_vmamba.layers.multi_scale import MultiScaleMixer, PatchMerging
from spectral_vmamba.models import timm
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.orders import direction_cells
from spectral_vmamba.ops.traversal import PatternTraversal
from spectral_vmamba.testing import activate_scan
from tests.support.models import perturb
from tests.support.plain_msvmamba import plain_block, plain_merging, plain_network
from tests.support.plain_scan import assert_equal_with_gradients
from tests.support.released import msvmamba_state
from tests.support.tolerances import assert_relatively_close

SMALL = {"widths": (16, 32), "depths": (1, 2)}
GRIDS = [(3, 5), (1, 4), (5, 1), (1, 1), (4, 2)]


def raster(size, batch=1):
    return PatternTraversal.from_pattern("raster", Grid(*size), batch, torch.device("cpu"))


def build_perturbed(**options):
    return perturb(activate_scan(timm.create_model("msvmamba_tiny", **options)), 0.2)


@pytest.mark.parametrize("size", GRIDS)
@pytest.mark.parametrize("state_size", [1, 3])
def test_block_matches_its_equations(size, state_size):
    block = build_perturbed(state_size=state_size, **SMALL).double().eval().stages[1].blocks[0]
    x = torch.randn(1, size[0] * size[1], 32, dtype=torch.float64, requires_grad=True)
    inputs = {"x": x, **dict(block.named_parameters())}
    several = size != (1, 1)  # the decay of the state has no effect on a single token
    assert_equal_with_gradients(block(x, raster(size))[0], plain_block(block, x[0], *size), inputs, all_used=several)


def test_network_matches_its_equations():
    model = build_perturbed(widths=(8, 16, 24), depths=(1, 1, 1), num_classes=5).double().eval()
    images = torch.randn(2, 3, 20, 28).double()
    with torch.no_grad():
        assert_relatively_close(model(images), plain_network(model, images), 5e-15)  # measured: 9e-16


@pytest.mark.parametrize("size", GRIDS)
def test_patch_merging_matches_its_equations(size):
    merging = PatchMerging(6, 10).double()
    nn.init.normal_(merging.norm.weight)
    height, width = size
    x = torch.randn(2, height * width, 6).double()
    actual, halved = merging(x, raster(size, 2))
    assert (halved.grid.height, halved.grid.width) == ((height + 1) // 2, (width + 1) // 2)
    expected = plain_merging(merging, x.reshape(2, height, width, 6)).flatten(1, 2)
    assert_relatively_close(actual, expected, 2e-15)  # measured: 3e-16


def test_state_is_carried_from_one_coarse_order_to_the_next():
    mixer = activate_scan(MultiScaleMixer(16)).eval()
    calls = []
    mixer.coarse_scan.register_forward_hook(lambda module, inputs, output: calls.append((*inputs, output)))
    with torch.no_grad():
        mixer(torch.randn(1, 5 * 7, 16), raster((5, 7)))
        (visits, steps, before), part = calls[0], 3 * 4
        changed = visits.clone()
        changed[:, part - 1] += 1.0
        after = mixer.coarse_scan(changed, steps)
    assert visits.shape == (1, 3 * part, 32)
    assert torch.equal(steps[0, 0], torch.arange(3 * part)), "one sequence, scanned in its own order"
    assert torch.equal(after[:, : part - 1], before[:, : part - 1]), "earlier tokens do not change"
    assert (after[:, part : part + 3] != before[:, part : part + 3]).any(-1).all(), "the next order does"


def test_coarse_sequence_concatenates_three_orders():
    mixer = MultiScaleMixer(16)
    sequences = []
    mixer.coarse_scan.register_forward_hook(lambda module, inputs, output: sequences.append(inputs[0]))
    maps = torch.randn(2, 32, 5, 3)
    mixer.coarse(maps, Grid(5, 3))
    tokens = F.silu(mixer.coarse_conv(maps)).flatten(2).mT
    parts = [tokens[:, direction_cells(direction, 3, 2)] for direction in ("h_flip", "v", "v_flip")]
    assert torch.equal(sequences[0], torch.cat(parts, dim=1))


def test_published_names_and_shapes():
    state = msvmamba_state(timm.create_model("msvmamba_tiny", num_classes=5, **SMALL))
    for name in ("op.conv2d_b1.bias", "op.se.fc.0.weight", "op.se.fc.2.weight", "op.conv2d.weight"):
        assert f"layers.1.blocks.0.{name}" in state
    for name in ("linear1.weight", "dwc.weight", "linear2.bias"):
        assert f"layers.1.blocks.1.convFFN.{name}" in state
    shapes = {name.split("op.")[1]: tuple(t.shape) for name, t in state.items() if "layers.1.blocks.0.op." in name}
    assert shapes["x_proj_weight"] == (2, 2 + 2, 64)
    assert shapes["dt_projs_weight"] == (2, 64, 2)
    assert shapes["dt_projs_bias"] == (2, 64)
    assert shapes["A_logs"] == (2 * 64, 1)
    assert shapes["Ds"] == (2 * 64,)


def test_first_stacked_set_belongs_to_the_coarse_map():
    model = timm.create_model("msvmamba_tiny", num_classes=5, **SMALL)
    state = msvmamba_state(model)
    state["layers.0.blocks.0.op.Ds"] = torch.arange(64.0)
    model.load_state_dict(state)
    mixer = model.stages[0].blocks[0].mixer
    assert torch.equal(mixer.coarse_scan.D, torch.arange(32.0)[None])
    assert torch.equal(mixer.fine_scan.D, torch.arange(32.0, 64.0)[None])


def test_missing_and_unexpected_keys_are_listed(tmp_path):
    model = timm.create_model("msvmamba_tiny", num_classes=5, **SMALL)
    state = msvmamba_state(model)
    state["layers.0.blocks.0.op.another"] = state.pop("layers.0.blocks.0.op.A_logs")
    torch.save({"model": state}, tmp_path / "incomplete.pth")
    keys = r"(?s)Missing key.*fine_scan\.A_log.*Unexpected key.*op\.another"
    with pytest.raises(RuntimeError, match=keys):
        model.load_state_dict(state)
    with pytest.raises(RuntimeError, match=keys):
        timm.create_model("msvmamba_tiny", num_classes=5, checkpoint_path=str(tmp_path / "incomplete.pth"), **SMALL)


def test_any_size():
    model = timm.create_model("msvmamba_pico", num_classes=3).eval()
    with torch.no_grad():
        for size in ((33, 50), (4, 4), (4, 61)):
            assert model(torch.randn(1, 3, *size)).shape == (1, 3)


def test_incomplete_patches_are_padded_with_zeros_right_and_below():
    model = activate_scan(timm.create_model("msvmamba_pico", num_classes=3)).eval()
    images = torch.randn(2, 3, 33, 50)
    with torch.no_grad():
        assert torch.equal(model(images), model(F.pad(images, (0, 2, 0, 3))))
