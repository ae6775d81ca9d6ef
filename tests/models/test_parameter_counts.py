"""Parameter counts against the published ones, and those of the CPU-scale networks against each other."""

import pytest

from tests.support.models import build_on_meta, count_parameters

# At 1000 and at 100 classes.
PUBLISHED = {
    "vmamba_tiny": (30_249_064, 29_556_964),
    "vmamba_small": (50_147_752, 49_455_652),
    "vmamba_base": (88_557_800, 87_635_300),
    "vim_tiny": (7_148_008, 6_974_308),
    "vim_small": (25_796_584, 25_450_084),
    "local_vim_tiny": (7_994_152, 7_820_452),
    "local_vim_small": (27_783_784, 27_437_284),
    "msvmamba_nano": (6_864_136, 6_517_636),
    "msvmamba_micro": (11_879_272, 11_417_572),
    "msvmamba_tiny": (33_046_312, 32_354_212),
}
# Stem; blocks and following downsampling per stage, as the published code counts stages.
VMAMBA_PARTS = {
    "vmamba_tiny": (43_200, [367_680, 1_454_208, 15_165_696, 12_447_744]),
    "vmamba_small": (43_200, [419_712, 1_650_432, 31_819_392, 15_444_480]),
    "vmamba_base": (76_032, [739_840, 2_921_472, 56_385_024, 27_408_384]),
}
# Stem; one block per stage; each downsampling.
MSVMAMBA_PARTS = {
    "msvmamba_nano": (2_448, [34_704, 122_400, 456_768, 1_761_408], [18_816, 74_496, 296_448]),
    "msvmamba_micro": (3_264, [58_048, 210_304, 797_440, 3_102_208], [33_280, 132_096, 526_336]),
    "msvmamba_tiny": (4_896, [122_400, 456_768, 1_761_408, 6_914_304], [74_496, 296_448, 1_182_720]),
}
# Number of blocks; one block; length of the position table.
ISOTROPIC_PARTS = {
    "vim_tiny": (24, 282_048, 197),
    "vim_small": (24, 1_043_328, 197),
    "local_vim_tiny": (20, 380_784, 196),
    "local_vim_small": (20, 1_351_392, 196),
}
# Largest difference from spectral_vmamba_nano, at 10 classes.
CPU_SCALE = {"vmamba_nano": 0.03, "vim_nano": 0.05, "local_vim_nano": 0.05, "msvmamba_pico": 0.05}
EXACT = {"vim_nano": 1_057_930, "local_vim_nano": 1_088_578, "msvmamba_pico": 1_059_746}


@pytest.mark.parametrize("name", PUBLISHED)
def test_totals(name):
    counts = (count_parameters(build_on_meta(name, num_classes=classes)) for classes in (1000, 100))
    assert tuple(counts) == PUBLISHED[name]


@pytest.mark.parametrize("name", VMAMBA_PARTS)
def test_parts_of_vmamba(name):
    model = build_on_meta(name)
    stem, stages = VMAMBA_PARTS[name]
    assert count_parameters(model.tokenizer) == stem
    downsamples = [count_parameters(stage.downsample) for stage in model.stages[1:]] + [0]
    blocks = [count_parameters(stage.blocks) for stage in model.stages]
    assert [b + d for b, d in zip(blocks, downsamples, strict=True)] == stages


def test_blocks_of_vmamba_tiny():
    stages = build_on_meta("vmamba_tiny").stages
    assert [count_parameters(stage.blocks[0]) for stage in stages] == [100_608, 394_752, 1_563_648, 6_223_872]
    assert [count_parameters(stage.downsample) for stage in stages[1:]] == [166_464, 664_704, 2_656_512]


@pytest.mark.parametrize("name", MSVMAMBA_PARTS)
def test_parts_of_msvmamba(name):
    model = build_on_meta(name)
    stem, blocks, downsamples = MSVMAMBA_PARTS[name]
    assert count_parameters(model.tokenizer) == stem
    assert [{count_parameters(block) for block in stage.blocks} for stage in model.stages] == [{n} for n in blocks]
    assert [count_parameters(stage.downsample) for stage in model.stages[1:]] == downsamples


@pytest.mark.parametrize("name", ISOTROPIC_PARTS)
def test_parts_of_vim_and_local_vim(name):
    model = build_on_meta(name)
    depth, block, positions = ISOTROPIC_PARTS[name]
    assert [count_parameters(each) for each in model.blocks] == [block] * depth
    assert count_parameters(model.patch_embed) == 769 * model.config.width
    assert model.pos_embed.shape == (1, positions, model.config.width)
    assert (model.cls_token is None) == name.startswith("local_vim")


@pytest.mark.parametrize("name", CPU_SCALE)
def test_cpu_scale_networks_match_spectral_nano(name):
    model, spectral = (build_on_meta(each, num_classes=10) for each in (name, "spectral_vmamba_nano"))
    count = count_parameters(model)
    assert count == EXACT.get(name, count)
    assert abs(count / count_parameters(spectral) - 1) < CPU_SCALE[name]
    depths = [len(stage.blocks) for stage in spectral.stages]
    if hasattr(model, "stages"):
        assert [len(stage.blocks) for stage in model.stages] == depths
    else:
        assert len(model.blocks) == sum(depths)
