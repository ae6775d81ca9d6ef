"""Rows are measured once, stored, and measured again if anything that determines them changes."""

import json
from dataclasses import dataclass, field, replace

import pytest

from spectral_vmamba.studies import STUDIES, StudyOptions, describe_plan, find_study, read_result, run_study
from spectral_vmamba.studies.study import Job


@dataclass(frozen=True)
class Square:
    number: int
    square: int


@dataclass
class Squares:
    numbers: tuple[int, ...]
    version: int = 1
    fails_at: int | None = None
    measured: list[int] = field(default_factory=list)
    name: str = "squares"
    title: str = "squares"
    source: str = "Fig. 0"
    row: type = Square

    def plan(self, options):
        return [
            Job(str(n), {"n": n, "version": self.version}, lambda _, n=n: self._measure(n), estimate=lambda: 60.0)
            for n in self.numbers
        ]

    def _measure(self, number):
        if number == self.fails_at:
            raise KeyboardInterrupt
        self.measured.append(number)
        return Square(number, number**2)

    def summarize(self, rows):
        return ", ".join(str(row.square) for row in rows)


@pytest.fixture
def options(tmp_path):
    return StudyOptions(output=str(tmp_path))


def test_rows_are_in_the_order_of_the_plan_and_stored(options, tmp_path):
    study = Squares((3, 1, 2))
    result = run_study(study, options)
    assert [row.square for row in result.rows] == [9, 1, 4]
    stored = json.loads((tmp_path / "squares" / "results.json").read_text())
    assert sorted(each["row"]["square"] for each in stored["finished"].values()) == [1, 4, 9]
    assert stored["environment"]["packages"]["torch"]


def test_finished_rows_are_not_measured_again(options):
    run_study(Squares((1, 2)), options)
    more = Squares((2, 3))
    assert [row.number for row in run_study(more, options).rows] == [2, 3]
    assert more.measured == [3]


def test_stored_rows_are_those_of_the_last_call(options):
    """Rows of other settings stay in the file, and are not mixed with them."""
    run_study(Squares((1, 2)), options)
    run_study(Squares((2, 3), version=2), replace(options, epochs=7))
    result, stored = read_result(Squares(()), options.output)
    assert [row.number for row in result.rows] == [2, 3]
    assert stored.epochs == 7
    with pytest.raises(KeyboardInterrupt):
        run_study(Squares((4, 5), fails_at=5), options)
    assert [row.number for row in read_result(Squares(()), options.output)[0].rows] == [4]
    assert len(run_study(Squares((1, 2)), options).rows) == 2


def test_results_without_rows_are_refused(options, tmp_path):
    with pytest.raises(ValueError, match="there are no rows of squares"):
        read_result(Squares((1,)), tmp_path)


def test_a_changed_setting_measures_again(options):
    run_study(Squares((1, 2)), options)
    changed = Squares((1, 2), version=2)
    run_study(changed, options)
    assert changed.measured == [1, 2]


def test_an_interrupted_study_continues(options):
    with pytest.raises(KeyboardInterrupt):
        run_study(Squares((1, 2, 3), fails_at=2), options)
    again = Squares((1, 2, 3))
    run_study(again, options)
    assert again.measured == [2, 3]


def test_the_plan_names_finished_rows_and_adds_up_the_others(options):
    run_study(Squares((1,)), options)
    assert list(describe_plan(Squares((1, 2, 3)), options)) == [
        "1: finished",
        "2: about 60 s",
        "3: about 60 s",
        "in total: about 2 min, without tests",
    ]


def test_a_result_states_when_and_where_its_rows_were_measured(options, tmp_path):
    run_study(Squares((1,)), options)
    path = tmp_path / "squares" / "results.json"
    stored = json.loads(path.read_text())
    (row,) = stored["finished"].values()
    row["date"] = "2020-02-02T00:00:00+00:00"
    row["environment"] |= {"machine": "Plan9 mips", "threads": 64}
    path.write_text(json.dumps(stored))
    again = run_study(Squares((1,)), options)
    assert (again.date, again.machines) == (row["date"], ["Plan9 mips, 64 threads"])
    assert json.loads(path.read_text())["date"] == row["date"]
    both = run_study(Squares((1, 2)), options)
    assert both.date > "2026"
    assert len(both.machines) == 2


def test_studies_without_training_refuse_its_options(tmp_path):
    for name in ("traversal", "cost", "flops"):
        with pytest.raises(ValueError, match=f"{name} trains no network and has no option --train-images"):
            STUDIES[name].plan(StudyOptions(output=str(tmp_path), train_images=5))
        STUDIES[name].plan(StudyOptions(output=str(tmp_path), workers=0))


def test_damaged_results_are_not_overwritten(options, tmp_path):
    path = tmp_path / "squares" / "results.json"
    path.parent.mkdir()
    path.write_text('{"finished": [1')
    with pytest.raises(ValueError, match="is not the result of a study"):
        run_study(Squares((1,)), options)
    assert path.read_text() == '{"finished": [1'


def test_unknown_names_list_the_choices():
    with pytest.raises(ValueError, match=r"no study 'eigenvector'; there are rotation, .*; did you mean eigenvectors?"):
        find_study("eigenvector", STUDIES)
    with pytest.raises(ValueError, match="no scale 'huge'; there are digits, nano, lite, paper"):
        StudyOptions(scale="huge")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": ()}, "one or more different seeds"),
        ({"seeds": (1, 1)}, "one or more different seeds"),
        ({"epochs": 0}, "epochs of at least 1"),
        ({"step": 0.0}, "step of more than 0"),
        ({"train_images": 0}, "train_images of at least 1"),
    ],
)
def test_bad_options(changes, message):
    with pytest.raises(ValueError, match=message):
        StudyOptions(**changes)


def test_results_name_no_folder_of_this_machine(tmp_path):
    options = StudyOptions(output=str(tmp_path), data=str(tmp_path / "images.npz"), cache_folder=str(tmp_path))
    run_study(Squares((1,)), options)
    text = (tmp_path / "squares" / "results.json").read_text()
    assert str(tmp_path) not in text
    assert json.loads(text)["options"]["data"] == "images.npz"
