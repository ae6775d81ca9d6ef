"""The table of areas."""

import csv

import pytest

from spectral_vmamba.segmentation.areas import COLUMNS, write_areas
from spectral_vmamba.segmentation.georeference import Georeference


def test_pixels_shares_and_map_units(tmp_path):
    with write_areas(tmp_path / "areas.csv", ("soil", "Bäume, groß")) as add:
        add("a.jpg", (30, 10), None)
        add("b.tif", (0, 8), Georeference((0.5, 0.0, 0.0, 0.0, -0.5, 0.0)))
        assert not (tmp_path / "areas.csv").exists()
    with (tmp_path / "areas.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == COLUMNS
    assert rows == [
        ["a.jpg", "soil", "30", "0.750000", ""],
        ["a.jpg", "Bäume, groß", "10", "0.250000", ""],
        ["b.tif", "soil", "0", "0.000000", "0.0"],
        ["b.tif", "Bäume, groß", "8", "1.000000", "2.0"],
    ]


def test_another_number_of_classes_is_refused(tmp_path):
    with pytest.raises(ValueError, match="zip"), write_areas(tmp_path / "areas.csv", ("a", "b")) as add:
        add("a.jpg", (1, 2, 3), None)
    assert not list(tmp_path.iterdir())
