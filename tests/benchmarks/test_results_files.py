from dataclasses import dataclass

import pytest

from benchmarks.results_files import read_results, write_results


@dataclass(frozen=True)
class Row:
    name: str
    accuracy: float


def test_finished_rows_are_read_again_unless_they_were_measured_otherwise(tmp_path):
    path, rows = tmp_path / "results.json", [Row("a", 0.5)]
    arguments = {"epochs": 40, "rows": ["a"], "scale": (1, 2)}
    assert read_results(path, arguments, Row) == []
    write_results(path, arguments, rows, "| a |")
    assert read_results(path, {**arguments, "rows": ["a", "b"]}, Row) == rows
    with pytest.raises(ValueError, match=r"results with epochs = 40 \(now 3\); choose another output folder"):
        read_results(path, {**arguments, "epochs": 3}, Row)
