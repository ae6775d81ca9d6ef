"""The committed results of the studies hold what the documentation says about quarter turns."""

import json
from pathlib import Path

import pytest

from benchmarks.study_tables import TABLES, read_rows
from spectral_vmamba.studies import STUDIES
from spectral_vmamba.studies.study_runs import read_finished

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "benchmarks" / "results" / "studies").glob("*.json"))
DOCUMENTATION = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


def rows(path):
    return [each["row"] for each in json.loads(path.read_text())["finished"].values()]


def is_spectral_with_rfn(row):
    """By the labels of the studies: these networks have RFN and spectral orders."""
    label = row["network"].removesuffix(", no local mixing")
    return label == "Spectral VMamba" or label.startswith(("m = ", "k = ", "all pairs", "bridged", "Spectral VMamba, "))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_row_can_be_read_again(path):
    """The figure can be redrawn, and a row that is still part of the study is not measured again."""
    stored = json.loads(path.read_text())
    assert read_finished(path, STUDIES[stored["study"]].row).keys() == stored["finished"].keys()


IN_FULL = [
    *((study, "cifar10") for study in ("rotation", "eigenvectors", "neighbors", "table1", "dynamics", "random-rfn")),
    *(("departures", "cifar10"), ("erf", "cifar10"), ("rotation", "aid-64px"), ("rotation", "cells")),
]


@pytest.mark.parametrize(("study", "images"), IN_FULL)
def test_the_documentation_has_the_numbers_of_a_study(study, images):
    table, *_ = STUDIES[study].summarize(read_rows(study, images)).split("\n\n")
    assert table.count("\n") > 2
    assert table in DOCUMENTATION


@pytest.mark.parametrize("name", TABLES)
def test_the_documentation_has_the_tables_of_all_images(name):
    assert TABLES[name]() in DOCUMENTATION


def counts_flips(path):
    return any("quarter_flips" in row for row in rows(path))


@pytest.mark.parametrize("path", filter(counts_flips, RESULTS), ids=lambda path: path.stem)
def test_no_prediction_changes_with_a_frame_or_with_rfn_and_spectral_orders(path):
    for row in rows(path):
        if row["frame"] != "none" or is_spectral_with_rfn(row):
            assert row["quarter_flips"] == 0, row["network"]


def test_other_networks_change_predictions():
    without = [row for path in RESULTS for row in rows(path) if row.get("network") in ("VMamba", "VMamba with RFN")]
    counted = [row["quarter_flips"] for row in without if row.get("frame") == "none" and "quarter_flips" in row]
    assert sum(count > 0 for count in counted) > len(counted) / 2
