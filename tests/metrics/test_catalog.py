"""The table of models: complete, current in docs/models.md, and true about invariance."""

from pathlib import Path

import pytest
from torch import nn

import spectral_vmamba
from spectral_vmamba.metrics.catalog import (
    QUARTER_TURNS,
    TIMM_MODELS,
    declared_invariance,
    format_markdown,
)
from spectral_vmamba.models import is_cpu_scale
from spectral_vmamba.testing import activate_scan, rotation_gap
from tests.support.models import build, example_images, shallow_options

DOCUMENT = Path(__file__).parents[2] / "docs" / "models.md"


@pytest.mark.full
def test_the_document_is_current(catalog_rows):
    table = format_markdown(list(catalog_rows.values()), 1000)
    assert table in DOCUMENT.read_text(), "run `spectral-vmamba models --markdown` and put its output in docs/models.md"


@pytest.mark.full
def test_all_registered_models_and_baselines_are_listed(catalog_rows):
    expected = {*spectral_vmamba.list_models(), *(name for names in TIMM_MODELS.values() for name in names)}
    assert set(catalog_rows) == expected


@pytest.mark.parametrize("name", spectral_vmamba.list_models())
def test_models_are_as_invariant_as_the_table_says(name, crops):
    """Large models are made narrow, with weights so large that a few layers show what is not invariant."""
    model = activate_scan(build(name, **({} if is_cpu_scale(name) else shallow_options(name))))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_normal_(module.weight)
    gaps = rotation_gap(model, crops(4, example_images(name).shape[-1]), [90, 180])
    if declared_invariance(name) == QUARTER_TURNS:
        assert all(gap.bitwise_equal for gap in gaps)
    else:
        assert all(gap.max_difference > 1e-3 for gap in gaps)
