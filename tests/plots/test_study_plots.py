"""Figures of studies of which only a part was measured."""

from spectral_vmamba.plots.study_plots import plot_accuracy_study, plot_rotation_study
from spectral_vmamba.studies.accuracy_studies import AccuracyRow
from spectral_vmamba.studies.rotation_study import RotationRow


def rotation_row(network: str, frame: str) -> RotationRow:
    return RotationRow(network, frame, 0, 1.0, 10, (0.0, 90.0), (0.5, 0.4), (1.0, 0.8), 2)


def test_networks_with_different_frames_are_all_in_the_legend():
    figure = plot_rotation_study([rotation_row("first", "none"), rotation_row("second", "moment")])
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["first", "second"]


def test_the_title_says_how_many_seeds_the_networks_have():
    rows = [AccuracyRow("first", "none", seed, 1.0, 10, 0.5 + seed / 10, 0.9, 100, 0) for seed in (0, 1, 2)]
    one = [AccuracyRow("second", "none", 0, 1.0, 10, 0.5, 0.9, 100, 0)]
    titles = [plot_accuracy_study(each, "title")._suptitle.get_text() for each in (rows, rows + one, one)]
    assert [title.partition("(")[2] for title in titles] == [
        "mean and standard deviation of 3 seeds)",
        "mean and standard deviation of 1 or 3 seeds)",
        "one seed)",
    ]
