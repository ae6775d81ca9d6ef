"""Quarter turns of an image do not change the logits. On real photographs.

"Active" scans (Δ bias 0, x_proj × 8) mix tokens strongly. At the initial weights tokens hardly influence each other,
and a wrong order would go unnoticed. With the canonical frame, logits are equal to the last bit. Without it they differ
by rounding: the tolerances below are ten times the largest measured difference, in units of the logits' standard
deviation.
"""

from functools import lru_cache

import pytest
import torch

from spectral_vmamba.models import timm, without_frame
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.spectral import canonical
from spectral_vmamba.ops.turns import turn
from spectral_vmamba.testing import activate_scan, rotation_gap
from tests.support.models import FRAMES

OTHER_SIZES = [(192, 256), (160, 160), (97, 131)]
OPTIONS = [
    {},
    {"turns": 8},
    {"turns": "random"},
    {"domain": "disk"},
    {"domain": "disk", "neighbors": "none", "share_directions": True, "turns": 8},
    {"merge": "concat"},
    {"share_directions": True},
    {"share_directions": True, "merge": "concat"},
    {"local_mixing": "none"},
    {"local_mixing": "isotropic", "local_kernel": 5},
    {"radius_embedding": True},
    {"neighbors": "none"},
    {"neighbors": 20},
    {"eigenvectors": 1},
    {"eigenvectors": 2},
    {"eigenvectors": 3},
    {"eigenvectors": 7},
    {"state_size": 2},
    {"solver": "arpack"},
    {"solver": "subspace"},
    {"patch_size": 8},
]


# measured over all tests of this file: 2.0e-6 and 3.9e-14 (logits), 1.8e-6 and 4.9e-15 (feature maps)
LOGITS, LOGITS_FLOAT64 = 2e-5, 3e-13
MAPS, MAPS_FLOAT64 = 1.5e-5, 4e-14


def build(name, active, **options):
    torch.manual_seed(0)
    if name != "spectral_vmamba_nano":
        options = {"stem_weights": "none", **options}
    model = timm.create_model(name, **{"num_classes": 100, **options}).eval()
    if getattr(model, "radius", None) is not None:
        torch.nn.init.normal_(model.radius.table)
    return activate_scan(model) if active else model


@lru_cache(maxsize=1)
def active_tiny():
    """Built once: initializing 204 million weights takes seconds."""
    return build("spectral_vmamba_tiny", True)


def assert_same_bits(model, images):
    for gap in rotation_gap(model, images):
        assert gap.flips == 0
        assert gap.bitwise_equal
        assert gap.positions_unchanged == 1
        assert gap.sign_flips == 0


def assert_same_up_to_rounding(model, images):
    for gap in rotation_gap(model, images):
        assert gap.flips == 0
        assert gap.max_difference <= LOGITS
        assert gap.positions_unchanged == 1
        assert gap.sign_flips == 0


def assert_same_in_float64(model, images):
    for gap in rotation_gap(model.double(), images.double()):
        assert gap.flips == 0
        assert gap.max_difference <= LOGITS_FLOAT64
        assert gap.positions_unchanged == 1
        assert gap.sign_flips == 0


@pytest.mark.parametrize("active", [True, False], ids=["active", "initial"])
class TestNano:
    def test_same_bits(self, crops, active):
        assert_same_bits(build("spectral_vmamba_nano", active), crops(48, 32))

    def test_same_without_canonical_frame(self, crops, active):
        assert_same_up_to_rounding(build("spectral_vmamba_nano", active, frame="none"), crops(48, 32))

    def test_same_in_float64(self, crops, active):
        assert_same_in_float64(build("spectral_vmamba_nano", active, frame="none"), crops(48, 32))

    @pytest.mark.parametrize("size", [(64, 64), (48, 64), (40, 40), (25, 33)], ids=str)
    def test_other_sizes(self, crops, active, size):
        images = crops(12, size)
        assert_same_bits(build("spectral_vmamba_nano", active), images)
        assert_same_up_to_rounding(build("spectral_vmamba_nano", active, frame="none"), images)
        assert_same_in_float64(build("spectral_vmamba_nano", active, frame="none"), images)


@pytest.mark.parametrize(
    "size",
    [(97, 131), (9, 200), *(pytest.param(size, marks=pytest.mark.slow) for size in OTHER_SIZES[:2])],
    ids=str,
)
def test_nano_on_large_and_odd_images(crops, size):
    images = crops(4, size)
    assert_same_bits(build("spectral_vmamba_nano", True), images)
    assert_same_up_to_rounding(build("spectral_vmamba_nano", True, frame="none"), images)
    assert_same_in_float64(build("spectral_vmamba_nano", True, frame="none"), images)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_option_is_invariant(crops, options):
    images = crops(12, 32)
    assert_same_bits(build("spectral_vmamba_nano", True, **options), images)
    assert_same_up_to_rounding(build("spectral_vmamba_nano", True, frame="none", **options), images)
    assert_same_in_float64(build("spectral_vmamba_nano", True, frame="none", **options), images)


class TestTiny:
    """The paper's network at 224 px; more images are in the full tests, all combinations in the slow ones."""

    @pytest.mark.parametrize("count", [2, pytest.param(48, marks=pytest.mark.full)])
    def test_same_bits(self, crops, count):
        assert_same_bits(active_tiny(), crops(count, 224))

    @pytest.mark.parametrize("count", [2, pytest.param(48, marks=pytest.mark.full)])
    def test_same_without_canonical_frame(self, crops, count):
        assert_same_up_to_rounding(without_frame(active_tiny()), crops(count, 224))

    @pytest.mark.full
    def test_same_at_initial_weights(self, crops):
        model = build("spectral_vmamba_tiny", False)
        assert_same_bits(model, crops(4, 224))
        assert_same_up_to_rounding(without_frame(model), crops(4, 224))

    @pytest.mark.full
    def test_same_in_float64(self, crops):
        model = build("spectral_vmamba_tiny", True, frame="none")
        assert_same_in_float64(model, crops(2, 224))
        assert_same_in_float64(model, crops(2, (97, 131)))

    @pytest.mark.full
    @pytest.mark.parametrize("size", OTHER_SIZES, ids=str)
    def test_other_sizes(self, crops, size):
        images = crops(3, size)
        assert_same_bits(active_tiny(), images)
        assert_same_up_to_rounding(without_frame(active_tiny()), images)

    def test_feature_maps(self, crops):
        assert_maps_turn(_feature_maps(active_tiny()), crops(2, (160, 176)), 0)
        assert_maps_turn(_feature_maps(without_frame(active_tiny())), crops(2, (160, 176)), MAPS)

    @pytest.mark.slow
    @pytest.mark.parametrize("active", [True, False], ids=["active", "initial"])
    @pytest.mark.parametrize("size", [224, *OTHER_SIZES], ids=str)
    def test_all_combinations(self, crops, size, active):
        images = crops(48, size)
        assert_same_bits(build("spectral_vmamba_tiny", active), images)
        assert_same_up_to_rounding(build("spectral_vmamba_tiny", active, frame="none"), images)
        assert_same_in_float64(build("spectral_vmamba_tiny", active, frame="none"), images)


@pytest.mark.parametrize("stem", ["timm:tf_efficientnet_lite0", "timm:resnet18", "timm:mobilenetv3_small_050"])
def test_timm_stems_are_invariant(crops, stem):
    options = {"widths": (16, 32), "depths": (1, 1), "stem": stem, "stem_weights": "none"}
    images = crops(6, 128)
    assert_same_bits(build("spectral_vmamba_tiny", True, **options), images)
    assert_same_up_to_rounding(build("spectral_vmamba_tiny", True, frame="none", **options), images)


def assert_maps_turn(model, images, tolerance):
    with torch.no_grad():
        maps = model(images)
        for quarters in (1, 2, 3):
            for before, after in zip(maps, model(turn(images, quarters)), strict=True):
                assert (turn(before, quarters) - after).abs().max() <= tolerance * before.std()


@pytest.mark.parametrize("domain", ["square", "disk"])
@pytest.mark.parametrize("size", [32, (48, 64), (25, 33)], ids=str)
def test_feature_maps_turn_with_the_image(crops, size, domain):
    images = crops(8, size)
    options = {"features_only": True, "domain": domain}
    assert_maps_turn(build("spectral_vmamba_nano", True, **options), images, 0)
    model = build("spectral_vmamba_nano", True, frame="none", **options)
    assert_maps_turn(model, images, MAPS)
    assert_maps_turn(model.double(), images.double(), MAPS_FLOAT64)


def _feature_maps(model):
    return lambda images: model.forward_intermediates(images, intermediates_only=True)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("size", [32, (20, 28)], ids=str)
def test_unpooled_outputs_turn_with_the_image(crops, size, frame):
    model = build("spectral_vmamba_nano", True, frame=frame, num_classes=0, global_pool="").double()
    images = crops(6, size).double()
    with torch.no_grad():
        for maps in (model, model.forward_features):
            # measured: 3.1e-15
            torch.testing.assert_close(turn(maps(images), 1), maps(turn(images, 1)), rtol=0, atol=3e-14)


SINGLE = [
    ("spectral_vmamba_nano", 32, {}),
    ("spectral_vmamba_nano", 32, {"frame": "none"}),
    ("spectral_vmamba_nano", (40, 56), {"domain": "disk", "turns": 8}),
    pytest.param("spectral_vmamba_tiny", 224, {}, marks=pytest.mark.full),
]


@pytest.mark.parametrize(("name", "size", "options"), SINGLE, ids=str)
def test_a_batch_of_one_is_a_row_of_a_batch(crops, name, size, options):
    model = active_tiny() if name == "spectral_vmamba_tiny" else build(name, True, **options)
    images = crops(8, size)
    with torch.no_grad():
        logits, stages = model.forward_traversals(images)
        for i in range(8):
            single, single_stages = model.forward_traversals(images[i : i + 1])
            torch.testing.assert_close(single[0], logits[i], rtol=0, atol=1e-5)  # measured: 1.4e-6
            assert torch.equal(single_stages[0].orders[0], stages[0].orders[i])


def test_the_rest_of_the_batch_does_not_matter(crops):
    """The same image in a batch of other images, ten times as bright."""
    model = build("spectral_vmamba_nano", True)
    images = crops(8, 32)
    others = torch.cat([images[:1], 10 * images[1:].flip(0)])
    with torch.no_grad():
        (first, stages), (second, other_stages) = (model.forward_traversals(batch) for batch in (images, others))
    assert torch.equal(first[0], second[0])
    assert torch.equal(stages[0].orders[0], other_stages[0].orders[0])


class TestTheChecksCanFail:
    """The checks above fail for each of these networks."""

    def test_random_orders(self, crops):
        model = build("spectral_vmamba_nano", True, frame="none", traversal="random")
        gaps = rotation_gap(model, crops(12, 32))
        assert max(gap.max_difference for gap in gaps) > 1e-2
        assert max(gap.positions_unchanged for gap in gaps) < 0.5

    def test_no_rfn(self, crops):
        model = build("spectral_vmamba_nano", True, frame="none", turns=1)
        assert model.tokenizer.rfn.turns == 1
        assert max(gap.max_difference for gap in rotation_gap(model, crops(12, 32))) > 1e-2

    def test_signs_by_the_first_raster_entry(self, crops, monkeypatch):
        """The sign rule of the paper."""
        monkeypatch.setattr(canonical, "_signs", lambda vectors, *_: torch.sign(vectors[..., 0]))
        gaps = rotation_gap(build("spectral_vmamba_nano", True, frame="none"), crops(24, 32))
        assert max(gap.sign_flips for gap in gaps) > 10
        assert max(gap.max_difference for gap in gaps) > 1e-2

    def test_pooling_the_top_left_cell(self, crops, monkeypatch):
        """The downsampling of the paper."""
        windows = Grid.windows
        monkeypatch.setattr(Grid, "windows", lambda grid: windows(grid)[:, :1])
        gaps = rotation_gap(build("spectral_vmamba_nano", True, frame="none"), crops(12, 32))
        assert max(gap.max_difference for gap in gaps) > 1e-2
