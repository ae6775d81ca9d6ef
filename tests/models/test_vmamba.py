"""VMamba against its published equations; parameter counts and released checkpoints have their own files."""

import pytest
import torch
from safetensors.torch import save_file

import spectral_vmamba
from spectral_vmamba.models import timm
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.orders import pattern_orders, random_pattern
from spectral_vmamba.ops.traversal import PatternTraversal
from spectral_vmamba.testing import activate_scan
from tests.support.models import perturb
from tests.support.plain_scan import assert_equal_with_gradients
from tests.support.plain_vmamba import plain_block, plain_network
from tests.support.tolerances import assert_relatively_close

SMALL = {"widths": (16, 32), "depths": (1, 2)}


@pytest.mark.parametrize("size", [(3, 5), (1, 4)])
@pytest.mark.parametrize("state_size", [1, 3])
def test_block_matches_its_equations(size, state_size):
    model = activate_scan(timm.create_model("vmamba_tiny", expand=2.0, state_size=state_size, **SMALL)).double().eval()
    block = model.stages[1].blocks[0]
    x = torch.randn(1, size[0] * size[1], 32, dtype=torch.float64, requires_grad=True)
    traversal = PatternTraversal.from_pattern("cross", Grid(*size), 1, x.device)
    inputs = {"x": x, **dict(block.named_parameters())}
    assert_equal_with_gradients(block(x, traversal)[0], plain_block(block, x[0], *size), inputs)


def test_network_matches_its_equations():
    options = {"widths": (8, 16, 24), "depths": (1, 1, 1), "num_classes": 5}
    model = perturb(activate_scan(timm.create_model("vmamba_tiny", **options)), 0.2).double().eval()
    images = torch.randn(2, 3, 21, 30).double()
    with torch.no_grad():
        expected = torch.stack([plain_network(model, image) for image in images.split(1)])
        assert_relatively_close(model(images), expected, 1e-14)  # measured: 2e-15


def test_checkpoints_of_other_architectures_are_refused_with_their_keys(tmp_path):
    spectral = timm.create_model("spectral_vmamba_nano", num_classes=5)
    save_file(spectral.state_dict(), tmp_path / "spectral.safetensors")
    with pytest.raises(
        RuntimeError, match=r"(?s)Missing key.*tokenizer\.stem\.0\.weight.*Unexpected key.*tokenizer\.rfn"
    ):
        timm.create_model("vmamba_nano", num_classes=5, checkpoint_path=str(tmp_path / "spectral.safetensors"))
    state = timm.create_model("vmamba_nano", num_classes=5).state_dict()
    state["extra"] = state.pop("stages.0.blocks.0.mixer.s6.A_log")
    with pytest.raises(RuntimeError, match=r"(?s)A_log.*extra"):
        timm.create_model("vmamba_nano", num_classes=5).load_state_dict(state)


def test_any_size_and_any_orders():
    model = spectral_vmamba.create_model("vmamba_nano", num_classes=3, orders=("w2", "v_flip")).eval()
    assert model(torch.randn(1, 3, 33, 50)).shape == (1, 3)
    random = spectral_vmamba.create_model("vmamba_nano", num_classes=3, orders="random").eval()
    _, traversals = random.forward_traversals(torch.randn(2, 3, 32, 32))
    for traversal in traversals:
        assert torch.equal(traversal.orders[1], pattern_orders(random_pattern(4), traversal.grid))
    custom = spectral_vmamba.create_model(
        "vmamba_nano", num_classes=3, orders=lambda grid: torch.arange(len(grid.cells()))[None]
    ).eval()
    assert custom(torch.randn(1, 3, 32, 32)).shape == (1, 3)
    assert len(custom.stages[0].blocks[0].mixer.s6.D) == 1
