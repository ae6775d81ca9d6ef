"""The committed results of the studies hold what the documentation says about quarter turns."""

import json
from pathlib import Path

import pytest

from spectral_vmamba.studies import STUDIES
from spectral_vmamba.studies.study import read_finished

RESULTS = sorted((Path(__file__).parents[2] / "benchmarks" / "results" / "studies").glob("*.json"))


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
