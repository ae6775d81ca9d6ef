"""The table of models: figures of the papers, and docs/models.md as the code would write it today."""

from pathlib import Path

import pytest
from torch import nn

import spectral_vmamba
from spectral_vmamba.metrics.catalog import QUARTER_TURNS, TIMM_MODELS, as_markdown, catalog, invariances
from spectral_vmamba.metrics.flops import measure_cost
from spectral_vmamba.models.variants import is_cpu_scale
from spectral_vmamba.testing import activate_scan, rotation_gap
from tests.support.models import build, images, shallow

DOCUMENT = Path(__file__).parents[2] / "docs" / "models.md"
# GFLOPs re-derived under the authors' rules, and with all that runs counted.
PUBLISHED = {
    "vim_tiny": (1.483, 1.83),
    "vim_small": (5.144, 5.92),
    "local_vim_tiny": (1.482, 2.14),
    "local_vim_small": (4.771, 6.30),
    "msvmamba_nano": (0.883, None),
    "msvmamba_micro": (1.532, None),
    "msvmamba_tiny": (4.613, None),
    "vmamba_tiny": (4.906, None),
    "vmamba_small": (8.716, None),
    "vmamba_base": (15.359, None),
}
# Of LocalVim the published honest counts leave the norms of the channel gates out: 5 per element, 4 readings a block.
GATES = {name: 5 * 4 * 20 * 196 * inner / 1e9 for name, inner in (("local_vim_tiny", 384), ("local_vim_small", 768))}
PRINTED = {"vim_tiny": "1.824", "vim_small": "5.914", "local_vim_tiny": "2.167", "local_vim_small": "6.364"}


@pytest.fixture(scope="module")
def rows():
    return {row.cost.name: row for row in catalog(1000)}


def test_the_document_is_current(rows):
    table = as_markdown(list(rows.values()), 1000)
    assert table in DOCUMENT.read_text(), "run `spectral-vmamba models --markdown` and put its output in docs/models.md"


def test_every_registered_model_and_timms_baselines_are_there(rows):
    expected = {*spectral_vmamba.list_models(), *(name for names in TIMM_MODELS.values() for name in names)}
    assert set(rows) == expected


@pytest.mark.parametrize("name", PUBLISHED)
def test_flops_are_the_published_ones(rows, name):
    by_authors, honest = PUBLISHED[name]
    cost = rows[name].cost
    assert cost.gflops_authors == pytest.approx(by_authors, rel=0.01)
    if honest is None:
        assert cost.gflops == cost.gflops_authors
        return
    assert f"{cost.gflops:.3f}" == PRINTED[name]
    assert cost.gflops - GATES.get(name, 0.0) == pytest.approx(honest, rel=0.01)


def test_rms_norms_are_counted():
    """Vim's block by hand: 5 per normalized element, in every block and at the end."""
    shape = {"width": 32, "depth": 2, "patch_size": 4, "img_size": 8, "state_size": 1, "num_classes": 3}
    tokens, d, D, R = 5, 32, 64, 2
    reading = tokens * D * (4 + R + 2 + R + 10)
    block = tokens * (2 * d * D + D * d) + 2 * reading + 5 * tokens * d
    stem, end = 4 * 48 * d, 5 * tokens * d + 3 * d
    assert measure_cost("vim_tiny", 8, **shape).gflops * 1e9 == pytest.approx(stem + 2 * block + end)


@pytest.mark.parametrize("name", spectral_vmamba.list_models())
def test_models_are_as_invariant_as_the_table_says(name, crops):
    """The big ones narrow, with weights so large that what is not invariant shows in few layers too."""
    model = activate_scan(build(name, **({} if is_cpu_scale(name) else shallow(name))))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight)
    gaps = rotation_gap(model, crops(4, images(name).shape[-1]), [90, 180])
    if invariances(name) == QUARTER_TURNS:
        assert all(gap.max_difference == 0 for gap in gaps)
    else:
        assert all(gap.max_difference > 1e-3 for gap in gaps)
