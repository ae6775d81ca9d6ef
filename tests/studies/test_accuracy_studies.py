"""Accuracies of networks, compared seed by seed."""

from spectral_vmamba.plots.study_plots import plot_accuracy_study
from spectral_vmamba.studies.accuracy_studies import ORDERS, AccuracyRow
from spectral_vmamba.studies.scales import CROSS_RFN, RANDOM, SPECTRAL


def rows(label: str, *accuracies: float, flips: int = 0) -> list[AccuracyRow]:
    return [
        AccuracyRow(
            label, "none", seed, 1.0, images=100, top1=top1, top5=1.0, trainable_parameters=9, quarter_flips=flips
        )
        for seed, top1 in enumerate(accuracies)
    ]


ROWS = [
    *rows(SPECTRAL, 0.50, 0.60),
    *rows(CROSS_RFN, 0.52, 0.58, flips=30),
    *rows(f"{SPECTRAL}, no local mixing", 0.30, 0.40),
    *rows(f"{RANDOM}, no local mixing", 0.29, 0.39),
]


def test_differences_are_to_the_network_with_spectral_orders_seed_by_seed():
    lines = ORDERS.summarize(ROWS).splitlines()
    cells = [[cell.strip() for cell in line.split("|")] for line in lines[2:6]]
    assert [row[4] for row in cells] == ["–", "+0.0 ± 2.8", "–", "-1.0 ± 0.0"]
    assert cells[1][3] == "55.0 ± 4.2"
    assert "“difference”: of top-1 to “Spectral VMamba” or “Spectral VMamba, no local mixing”" in lines[-1]


def test_the_figure_shows_changed_predictions_as_a_share_of_three_turns():
    _, flips = plot_accuracy_study(ROWS, "orders").axes
    assert [bar.get_width() for bar in flips.patches] == [0.0, 10.0, 0.0, 0.0]
