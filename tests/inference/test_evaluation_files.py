"""The numbers of an evaluation as files."""

import csv
import json
from dataclasses import replace

from spectral_vmamba.inference.evaluation_files import write_evaluations
from tests.support.evaluations import make_evaluation

CLASSES = ("a, b", "桜")


def read_csv(path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def test_all_numbers_can_be_read_back(tmp_path):
    evaluation = make_evaluation([0, 1], [1, 1], CLASSES, ["x,1.png", "y.png"])
    paths = write_evaluations([evaluation], tmp_path)
    assert [path.name for path in paths] == ["evaluation.json", "images.csv", "classes.csv", "angles.csv"]
    (stored,) = json.loads(paths[0].read_text(encoding="utf-8"))
    assert stored["classes"] == list(CLASSES)
    assert [mistake["name"] for mistake in stored["mistakes"]] == ["x,1.png"]
    assert stored["label_smoothing"] == 0.1
    assert read_csv(paths[1])[1] == ["run", "x,1.png", "a, b", "桜", "0", "0.900000", "0.100000"]
    assert read_csv(paths[2])[2] == ["run", "桜", "1", "2", "1", "0.500000", "1.000000", "0.666667"]
    assert read_csv(paths[3])[1] == ["run", "black", "0", "2", "1", "0.500000", "1.000000", "0"]
    assert len(read_csv(paths[3])) == 1 + 2 * 4


def test_without_rotations_there_is_no_table_of_angles(tmp_path):
    evaluation = replace(make_evaluation([0, 1], [1, 1], CLASSES, ["\udcff.png", "b"]), sweeps=[])
    assert len(write_evaluations([evaluation], tmp_path)) == 3
    assert read_csv(tmp_path / "images.csv")[1][1] == "\\udcff.png"
