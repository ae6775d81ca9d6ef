"""The study of time and memory against the tokens."""

from dataclasses import replace

import pytest

from spectral_vmamba.studies.cost_study import CostStudy, best_seconds, growth_exponent, measure_cost_at


def test_the_exponent_is_that_of_a_power_law_without_the_smallest_third():
    sizes = [10, 20, 40, 80, 160, 320]
    assert growth_exponent(sizes, [100.0, 100.0, *(3 * size**1.5 for size in sizes[2:])]) == pytest.approx(1.5)


def test_a_long_call_is_not_repeated(monkeypatch):
    calls = []
    monkeypatch.setattr("spectral_vmamba.studies.cost_study._LONG", 0.0)
    best_seconds(lambda: calls.append(1))
    assert len(calls) == 1


def test_one_size():
    row = measure_cost_at(7)
    assert row.tokens == 49
    assert 0 < row.sts_seconds < row.backbone_seconds
    assert "| 49 |" in CostStudy().summarize([row, replace(row, tokens=100), replace(row, tokens=200)])
