"""Parameter counts to the last unit and FLOPs within 1 % of the paper's."""

import pytest
import torch

from spectral_vmamba.metrics.flops import measure_cost
from spectral_vmamba.models import create_model

PAPER = {
    "spectral_vmamba_tiny": (203_988_068, 3.904, 8.112),
    "spectral_vmamba_small": (351_741_028, 6.287, 10.495),
    "spectral_vmamba_base": (351_741_028, 6.287, 10.495),
}


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_table(name):
    parameters, stem_once, all_passes = PAPER[name]
    cost = measure_cost(name)
    assert cost.trainable_parameters == parameters
    assert cost.gflops_authors == pytest.approx(stem_once, rel=0.01)
    assert cost.gflops == pytest.approx(all_passes, rel=0.01)


@pytest.mark.parametrize(("stage", "parameters"), [(0, 941_312), (1, 3_717_632), (2, 14_775_296), (3, 58_910_720)])
def test_parameters_of_one_block(stage, parameters):
    with torch.device("meta"):
        model = create_model("spectral_vmamba_tiny", stem_weights=None)
    assert sum(p.numel() for p in model.stages[stage].blocks[0].parameters()) == parameters


def test_nano_is_about_a_million():
    assert 0.8e6 < measure_cost("spectral_vmamba_nano").trainable_parameters < 1.2e6


def test_flops_by_hand_for_a_tiny_network():
    """Conv stem, four tokens, one block, one eigenvector: every term of the rule."""
    options = {
        "widths": (32,),
        "depths": (1,),
        "stem": "conv",
        "patch_size": 2,
        "eigenvectors": 1,
        "local_mixing": None,
    }
    cost = measure_cost("spectral_vmamba_nano", 4, num_classes=3, **options)
    tokens, d, D, R, paths = 4, 32, 64, 2, 2
    stem = 4 * (tokens * d * 3 * 9 + 5 * tokens * d)
    block = tokens * (d * D + paths * D * (R + 2) + paths * R * D + D * d + 8 * d * d) + 5 * tokens * (2 * d + D)
    scan = paths * tokens * D * 10
    head = 5 * tokens * d + d * 3
    assert cost.gflops * 1e9 == pytest.approx(stem + block + scan + head)
    assert cost.gflops_authors * 1e9 == pytest.approx(stem / 4 + block + scan + head)


def test_other_models_can_be_counted():
    cost = measure_cost("resnet18", num_classes=1000)
    assert cost.trainable_parameters == 11_689_512
    assert cost.gflops == cost.gflops_authors == pytest.approx(1.81, rel=0.02)
