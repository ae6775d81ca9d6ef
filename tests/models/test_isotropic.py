"""What Vim and LocalVim share, besides timm's contract (see tests/contracts)."""

import pytest
import torch
import torch.nn.functional as F

from spectral_vmamba.models import timm
from spectral_vmamba.models.positions import split_class_token
from tests.support.small_vim import SMALL, build_small, random_images

both_families = pytest.mark.parametrize("name", ["vim_tiny", "local_vim_tiny"])


@both_families
def test_own_checkpoints_load_and_wrong_ones_are_refused_with_their_keys(name):
    model, other = build_small(name).eval(), timm.create_model(name, num_classes=5, **SMALL).eval()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(random_images()), model(random_images()))
    state = model.state_dict()
    state["extra"] = state.pop("blocks.1.mixer.directions.0.s6.A_log")
    with pytest.raises(RuntimeError, match=r"(?s)Missing.*directions\.0\.s6\.A_log.*Unexpected.*extra"):
        other.load_state_dict(state)


@both_families
def test_images_of_other_sizes_are_padded_with_zeros_below_and_to_the_right(name):
    model = build_small(name).eval()
    for height, width in ((4, 4), (12, 20), (13, 18), (24, 8), (36, 32)):
        assert model(random_images(2, height, width)).shape == (2, 5)
    odd = random_images(2, 13, 18)
    assert torch.equal(model(odd), model(F.pad(odd, (0, 2, 0, 3))))


@both_families
def test_impossible_architectures_are_refused(name):
    with pytest.raises(ValueError, match="depth ≥ 1, got 0"):
        timm.create_model(name, depth=0)


@both_families
def test_class_tokens_are_returned_beside_the_maps(name):
    model = build_small(name).eval()
    final, maps = model.forward_intermediates(random_images(), norm=True)
    _, pairs = model.forward_intermediates(random_images(), norm=True, return_prefix_tokens=True)
    assert model.num_prefix_tokens == 0, "no token is before the patches"
    if name == "vim_tiny":
        assert torch.equal(pairs[-1][0], maps[-1])
        assert torch.equal(pairs[-1][1], final[:, 7:8])
    else:
        assert torch.equal(pairs[-1], maps[-1])
    (raw,) = model.forward_intermediates(random_images(), indices=[1], stop_early=True, intermediates_only=True)
    torch.testing.assert_close(model.norm(raw.movedim(1, -1)).movedim(-1, 1), maps[1])
    assert torch.equal(maps[-1].flatten(2).mT, split_class_token(final, name == "vim_tiny")[1])


@pytest.mark.slow
@both_families
def test_compiles_for_another_size(name):
    model = build_small(name, depth=1).eval()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        for size in ((12, 20), (9, 16)):
            torch.testing.assert_close(compiled(random_images(2, *size)), model(random_images(2, *size)))


@both_families
def test_residual_stream_stays_in_float32(name):
    model = build_small(name).bfloat16().eval()
    dtypes = []
    for block in model.blocks:
        block.register_forward_hook(lambda _, inputs, output: dtypes.extend([inputs[0].dtype, output.dtype]))
        block.mixer.register_forward_hook(lambda _, inputs, output: dtypes.append(output.dtype))
    logits = model(random_images().bfloat16())
    assert logits.dtype == torch.bfloat16
    assert dtypes == [torch.bfloat16, torch.float32, torch.float32] * 3
    full = build_small(name).eval()
    with torch.autocast("cpu", torch.bfloat16):
        under_autocast = full(random_images())
    expected = full(random_images())
    assert (under_autocast.float() - expected).abs().max() < 0.1 * expected.std()  # measured: 0.014
