"""`spectral-vmamba models`."""

from dataclasses import replace

import pytest

from spectral_vmamba.cli import main
from spectral_vmamba.models import FAMILIES


@pytest.fixture
def _three_models(monkeypatch):
    families = [
        replace(family, architectures={name: family.architectures[name]})
        for family in FAMILIES
        for name in ("vmamba_tiny", "vim_tiny", "spectral_vmamba_tiny")
        if name in family.names
    ]
    monkeypatch.setattr("spectral_vmamba.metrics.catalog.FAMILIES", families)
    monkeypatch.setattr("spectral_vmamba.metrics.catalog.TIMM_MODELS", {})


@pytest.mark.usefixtures("_three_models")
def test_models_prints_one_table(capsys):
    assert main(["models", "--num-classes", "100"]) == 0
    out = capsys.readouterr().out
    for fact in ("29,556,964", "6,974,308", "203,988,068", "3.904", "8.112", "quarter turns", "Authors count"):
        assert fact in out


@pytest.mark.usefixtures("_three_models")
def test_markdown(capsys):
    assert main(["models", "--markdown"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("At 1000 classes.\n\n| model | family |")
    assert out.count("\n| ") == 4


def test_at_least_one_class_is_expected(capsys):
    assert main(["models", "--num-classes", "0"]) == 1
    assert "at least 1" in capsys.readouterr().err
