"""`spectral-vmamba split`."""

import csv

from spectral_vmamba.cli import main
from spectral_vmamba.data.readers.folder import read_csv


def test_fixed_numbers_per_class(digit_folders, tmp_path, capsys):
    """The protocol of mini-ImageNet."""
    table = tmp_path / "t.csv"
    counts = ["--train-per-class", "10", "--val-per-class", "5"]
    assert main(["split", str(digit_folders), *counts, "--output", str(table)]) == 0
    assert "100 training images, 50 validation images, 10 classes, seed 0" in capsys.readouterr().out
    rows = list(csv.DictReader(table.open()))
    assert sum(row["split"] == "train" for row in rows) == 100
    assert all((tmp_path / row["path"]).exists() for row in rows)
    assert {row["label"] for row in rows} == {f"digit {i}" for i in range(10)}


def test_test_images(digit_folders, tmp_path, capsys):
    table = tmp_path / "t.csv"
    options = ["--val-fraction", "0.2", "--test-fraction", "0.1", "--output", str(table)]
    assert main(["split", str(digit_folders), *options]) == 0
    assert "140 training images, 40 validation images, 20 test images, 10 classes" in capsys.readouterr().out
    assert [len(part) for part in read_csv(table).values()] == [140, 40, 20]
    assert main(["split", str(digit_folders), *options, "--overwrite", "--val-per-class", "2"]) == 1
    assert "--test-fraction requires --val-fraction, not --val-per-class" in capsys.readouterr().err


def test_an_existing_table_is_not_replaced_by_accident(digit_folders, tmp_path, capsys):
    arguments = ["split", str(digit_folders), "--output", str(tmp_path / "t.csv")]
    assert main(arguments) == 0
    before = (tmp_path / "t.csv").read_bytes()
    assert main([*arguments, "--seed", "1"]) == 1
    assert "already exists" in capsys.readouterr().err
    assert (tmp_path / "t.csv").read_bytes() == before
    assert main([*arguments, "--seed", "1", "--overwrite"]) == 0
    assert (tmp_path / "t.csv").read_bytes() != before


def test_counts_of_training_images_need_counts_of_validation_images(digit_folders, tmp_path, capsys):
    options = ["--train-per-class", "10", "--output", str(tmp_path / "t.csv")]
    assert main(["split", str(digit_folders), *options]) == 1
    assert "--train-per-class requires --val-per-class" in capsys.readouterr().err
