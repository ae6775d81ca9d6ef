"""`pyramid`, `output_stride` and `stage_maps`: what decoders and Grad-CAM libraries need of a hierarchical network."""

import pytest
import torch

from spectral_vmamba.models import list_models, timm
from spectral_vmamba.ops.turns import turn
from spectral_vmamba.testing import activate_scan
from tests.support.models import build, is_isotropic

HIERARCHIES = [name for name in list_models() if not is_isotropic(name)]
FAST = ("spectral_vmamba_nano", "spectral_vmamba_lite", "spectral_vmamba_tiny", "vmamba_nano", "msvmamba_pico")
every_hierarchy = pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.full) for name in HIERARCHIES]
)
SIZE = (64, 96)


def images(count=2):
    return torch.randn(count, 3, *SIZE, generator=torch.Generator().manual_seed(1))


@every_hierarchy
def test_maps_of_all_strides_that_turn_with_the_image(name):
    model = activate_scan(build(name, features_only=True, pyramid=True, frame="quarter")).eval()
    strides = model.feature_info.reduction()
    finest = [2] if name == "spectral_vmamba_lite" else []
    assert strides[: len(finest) + 4] == [*finest, 4, 8, 16, 32]
    with torch.no_grad():
        maps, turned = model(images()), model(turn(images(), 1))
    for m, t, stride, channels in zip(maps, turned, strides, model.feature_info.channels(), strict=True):
        assert m.shape == (2, channels, *(-(-side // stride) for side in SIZE))
        assert m.any()
        assert torch.equal(turn(m, 1), t)


@pytest.mark.parametrize("name", ["spectral_vmamba_nano", "spectral_vmamba_tiny", "vmamba_nano"])
def test_the_option_changes_neither_weights_nor_logits_nor_the_maps_of_stages(name):
    plain, pyramid = build(name).eval(), build(name, pyramid=True).eval()
    assert pyramid.state_dict().keys() == plain.state_dict().keys()
    with torch.no_grad():
        assert torch.equal(pyramid(images()), plain(images()))
        final, maps = pyramid.forward_intermediates(images(), norm=True)
        expected, stages = plain.forward_intermediates(images(), norm=True)
    assert torch.equal(final, expected)
    finer = pyramid.finer_maps
    for a, b in zip(maps[finer:], stages, strict=False):
        assert torch.equal(a, b)
    if len(maps) > finer + len(stages):  # the windows of even sides are 2 × 2
        assert torch.equal(maps[-1], torch.nn.functional.max_pool2d(stages[-1], 2))


@every_hierarchy
def test_gradients_reach_every_trainable_parameter(name):
    first = 1 if name == "spectral_vmamba_lite" else 0
    indices = tuple(range(first, first + 4))
    model = activate_scan(build(name, features_only=True, pyramid=True, out_indices=indices, drop_path_rate=0.0))
    assert model.feature_info.reduction() == [4, 8, 16, 32], "what most decoders take"
    sum((m * torch.randn_like(m)).sum() for m in model.train()(images())).backward()
    for parameter_name, parameter in model.named_parameters():
        if parameter.requires_grad and not parameter_name.endswith(("norm.weight", "norm.bias")):
            assert parameter.grad.any(), parameter_name


@pytest.mark.parametrize("turns", [4, 8])
@pytest.mark.parametrize("domain", ["square", "disk"])
def test_rfn_makes_the_maps_of_the_stem_equivariant_without_the_frame(turns, domain):
    """Also where the image does not consist of whole patches. Up to rounding: convolutions of the turned views."""
    options = {"patch_size": 16, "turns": turns, "domain": domain, "frame": "none"}
    model = build("spectral_vmamba_nano", features_only=True, **options).double().eval()
    assert model.feature_info.reduction() == [4, 8, 16, 32, 64]
    assert model.feature_info.channels() == [12, 24, 48, 96, 192]
    odd = torch.randn(2, 3, 75, 90, dtype=torch.float64)
    with torch.no_grad():
        before, after = model(odd), model(turn(odd, 1))
    eps = torch.finfo(torch.float64).eps
    for m, t in zip(before[:2], after[:2], strict=True):
        assert m.shape[-2] * 6 == m.shape[-1] * 5, "the image padded to 80 × 96 pixels"
        # a sum of at most 9 · 24 products per convolution, two or three convolutions with norms
        assert (turn(m, 1) - t).abs().max() <= 9 * 24 * 3 * eps * m.abs().max()
        corner = m[..., 0, 0]
        assert corner.any() != (domain == "disk"), "zero outside the disk"


def test_no_rfn_no_equivariance():
    """The check above can fail."""
    model = build("spectral_vmamba_no_rfn_nano", features_only=True, patch_size=16).eval()
    with torch.no_grad():
        before, after = model(images()), model(turn(images(), 1))
    assert (turn(before[0], 1) - after[0]).abs().max() > 0.1


def test_features_only_begins_at_the_finest_stride_by_default():
    """Decoder libraries look at a network without options first."""
    with torch.device("meta"):
        lite = build("spectral_vmamba_lite", features_only=True).feature_info
        tiny = build("spectral_vmamba_tiny", features_only=True).feature_info
        stages = build("spectral_vmamba_lite", features_only=True, pyramid=False).feature_info
        nano = build("spectral_vmamba_nano", features_only=True).feature_info
        assert not build("spectral_vmamba_lite").config.pyramid
        coarse = build("spectral_vmamba_lite", features_only=True, finest_stride=4).feature_info
        fine = build("spectral_vmamba_tiny", features_only=True, finest_stride=2).feature_info
    assert lite.reduction() == [2, 4, 8, 16, 32, 64]
    assert lite.channels() == [16, 24, 40, 64, 128, 384]
    assert coarse.reduction() == [4, 8, 16, 32, 64]
    assert fine.reduction() == [2, 4, 8, 16, 32, 64, 128]
    assert tiny.channels()[:2] == [64, 128]
    assert stages.reduction() == [16, 32, 64]
    assert nano.reduction() == [4, 8, 16, 32]


@pytest.mark.parametrize(
    ("name", "stride", "message"),
    [
        ("spectral_vmamba_lite", 3, "finest_stride of 4 or 2, got 3"),
        ("spectral_vmamba_nano", 2, "finest_stride of 4 .2 requires a pretrained stem., got 2"),
        ("vmamba_nano", 2, "finest_stride of 4 .2 requires a pretrained stem., got 2"),
    ],
)
def test_strides_that_no_stem_has_are_refused(name, stride, message):
    with pytest.raises(ValueError, match=message):
        build(name, features_only=True, finest_stride=stride)


def test_a_frozen_stem_without_the_stride_is_refused():
    with torch.device("meta"), pytest.raises(ValueError, match=r"not all of the strides.*pass finest_stride=4"):
        build("spectral_vmamba_lite", features_only=True, stem="timm:convnext_atto")


def test_layers_that_no_chosen_map_needs_are_removed():
    only_stem = build("spectral_vmamba_nano", features_only=True, patch_size=16, out_indices=(0, 1)).eval()
    assert [m.shape[1] for m in only_stem(images())] == [12, 24]
    assert len(only_stem.model.stages) == 0
    pooled = build("vmamba_nano", features_only=True, pyramid=True, out_indices=(3,)).eval()
    assert len(pooled.model.stages) == 3
    (m,) = pooled(images())
    assert m.shape == (2, 192, 2, 3)


def test_tokens_have_no_maps_finer_than_a_patch():
    model = build("spectral_vmamba_nano", pyramid=True, patch_size=16).eval()
    tokens = model.tokenizer(images())
    with pytest.raises(ValueError, match=r"expected images .* got tokens.* indices ≥ 2"):
        model.forward_intermediates(tokens)
    later = model.forward_intermediates(tokens, indices=[2, 3, 4], intermediates_only=True)
    assert torch.equal(later[0], model.forward_intermediates(images(), intermediates_only=True)[2])


@pytest.mark.parametrize("output_fmt", ["NHWC", "NLC"])
def test_other_layouts(output_fmt):
    model = build("spectral_vmamba_nano", pyramid=True, patch_size=16).eval()
    maps = model.forward_intermediates(images(), intermediates_only=True)
    others = model.forward_intermediates(images(), output_fmt=output_fmt, intermediates_only=True)
    for m, other in zip(maps, others, strict=True):
        assert torch.equal(other, m.movedim(1, -1) if output_fmt == "NHWC" else m.flatten(2).mT)


class TestOutputStride:
    @pytest.mark.parametrize("name", ["spectral_vmamba_nano", "spectral_vmamba_tiny", "vmamba_tiny", "msvmamba_nano"])
    def test_later_stages_keep_the_grid(self, name):
        model = build(name, features_only=True, pyramid=True, output_stride=16, frame="quarter").eval()
        with torch.no_grad():
            maps, turned = model(images()), model(turn(images(), 1))
        assert max(model.feature_info.reduction()) == 16
        for m, t, stride in zip(maps, turned, model.feature_info.reduction(), strict=True):
            assert m.shape[-2:] == (SIZE[0] // stride, SIZE[1] // stride)
            assert torch.equal(turn(m, 1), t)

    @pytest.mark.parametrize("name", ["vmamba_tiny", "msvmamba_nano"])
    def test_weights_of_the_network_fit(self, name):
        plain, dilated = build(name), build(name, output_stride=16)
        dilated.load_state_dict(plain.state_dict())
        assert dilated.pretrained_cfg["pool_size"] == (14, 14)
        assert build(name, output_stride=1024).config.stage_strides == plain.config.stage_strides

    def test_impossible_strides_are_refused(self):
        with pytest.raises(ValueError, match=r"at least the patch size, 16, got 8; .* vmamba_tiny"):
            build("spectral_vmamba_lite", output_stride=8)
        with pytest.raises(ValueError, match=r"one of the strides \[4, 8, 16\] as output_stride, got 12"):
            build("vmamba_nano", output_stride=12)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "vmamba_nano",
            {"out_indices": (0, 1, 2, 3), "pyramid": False},
            "3 feature maps, of strides 4, 8, 16.* pass pyramid=True.*=4",
        ),
        ("vmamba_nano", {"out_indices": (4,), "pyramid": True}, "4 feature maps, of strides 4, 8, 16, 32, got.*=5"),
        ("vim_nano", {"out_indices": 7}, "6 feature maps, of strides 4, 4, 4, 4, 4, 4, got out_indices 7"),
        (
            "spectral_vmamba_nano",
            {"stem": "timm:levit_128s", "stem_weights": "none", "patch_size": 16},
            "not all of the strides",
        ),
    ],
    ids=str,
)
def test_maps_that_do_not_exist_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        timm.create_model(name, features_only=True, **options)


class TestStageMaps:
    """Modules that see the map of a stage if they have hooks."""

    @pytest.mark.parametrize("name", ["spectral_vmamba_nano", "msvmamba_pico"])
    def test_hooks_see_the_maps_and_change_no_bits(self, name):
        model = build(name).eval()
        seen = []
        with torch.no_grad():
            logits = model(images())
            expected = model.forward_intermediates(images(), intermediates_only=True)
            hooks = [m.register_forward_hook(lambda _, __, output: seen.append(output)) for m in model.stage_maps]
            assert torch.equal(model(images()), logits)
        for a, b in zip(seen, expected, strict=True):
            assert torch.equal(a, b)
        for hook in hooks:
            hook.remove()
        model(images())
        assert len(seen) == len(expected), "without hooks, nothing is called"

    def test_the_logits_depend_on_the_maps_that_a_hook_returns(self):
        model = build("spectral_vmamba_nano").eval()
        with torch.no_grad():
            logits = model(images())
            model.stage_maps[1].register_forward_hook(lambda _, __, output: output.flip(-1))
            assert not torch.allclose(model(images()), logits)

    def test_gradients_of_the_logits_turn_with_the_image(self):
        model = activate_scan(build("spectral_vmamba_nano")).double().eval()
        gradients = []
        for x in (images().double(), turn(images().double(), 1)):
            maps = []
            hook = model.stage_maps[0].register_forward_hook(lambda _, __, output, maps=maps: maps.append(output))
            gradients += torch.autograd.grad(model(x)[:, 0].sum(), maps)
            hook.remove()
        assert gradients[0].shape == (2, 48, 16, 24)
        assert torch.equal(turn(gradients[0], 1), gradients[1])
