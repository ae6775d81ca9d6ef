"""Print the tables of docs/results.md that have a column or a row for each set of images.

python -m benchmarks.study_tables
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spectral_vmamba.plots.study_plots import QUARTER_TURNS
from spectral_vmamba.studies import STUDIES
from spectral_vmamba.studies.dynamics_study import THRESHOLDS, dynamics_cells
from spectral_vmamba.studies.random_rfn_study import random_rfn_cells
from spectral_vmamba.studies.row_tables import markdown, percent
from spectral_vmamba.studies.study_runs import read_finished, row_of
from spectral_vmamba.studies.training_jobs import by_network

FOLDER = Path(__file__).parent / "results" / "studies"
# The end of the name of a results file → what the tables call its images.
IMAGES = {
    "cifar10": "CIFAR-10",
    "aid-64px": "AID at 64 px",
    "aid": "AID, stem",
    "imagenette": "Imagenette, stem",
    "cells": "cells, stem",
}
Cell = Callable[[Sequence[Any]], str]


def read_rows(study: str, images: str) -> list[Any]:
    """The rows of a study on a set of images; none if it was not measured."""
    path, kind = FOLDER / f"{study}-{images}.json", STUDIES[study].row
    return [row_of(kind, stored) for stored in read_finished(path, kind).values()]


def compare(study: str, cell: Cell) -> str:
    """A row for each network, a column for each set of images, with the number of seeds."""
    columns = {name: _by_label(read_rows(study, images)) for images, name in IMAGES.items()}
    columns = {name: groups for name, groups in columns.items() if groups}
    networks = dict.fromkeys(network for groups in columns.values() for network in groups)
    headings = [f"{name} ({_seeds(groups)})" for name, groups in columns.items()]
    cells = [
        [network, *(cell(groups[network]) if network in groups else "–" for groups in columns.values())]
        for network in networks
    ]
    return markdown(["network", *headings], cells)


def _by_label(rows: Sequence[Any]) -> dict[str, list[Any]]:
    return {network: seeds for (network, _), seeds in by_network(rows).items()}


def _seeds(groups: dict[str, list[Any]]) -> str:
    counts = sorted({len(seeds) for seeds in groups.values()})
    return " or ".join(map(str, counts))


def accuracy(rows: Sequence[Any]) -> str:
    return percent([row.top1 for row in rows])


def changed(rows: Sequence[Any]) -> str:
    """Percent of the predictions at quarter turns."""
    return percent([row.quarter_flips / (QUARTER_TURNS * row.images) for row in rows])


def correlations(rows: Sequence[Any]) -> str:
    """Of the visiting orders at 15 and 45°."""
    means = (sum(getattr(row, name) for row in rows) / len(rows) for name in ("correlation_at_15", "correlation_at_45"))
    return ", ".join(f"{each:.2f}" for each in means)


def compare_dynamics() -> str:
    """The epochs to shares of the accuracy that every run on a set of images reached."""
    cells = [(name, *row) for images, name in IMAGES.items() for row in dynamics_cells(read_rows("dynamics", images))]
    return markdown(["images", "network", "best accuracy", *(f"{share:.0%}" for share in THRESHOLDS)], cells)


def compare_random_rfn() -> str:
    cells = [
        (name, *row) for images, name in IMAGES.items() for row in random_rfn_cells(read_rows("random-rfn", images))
    ]
    return markdown(["images", "network", "in use", "upright", "mean of angles", "least agreement"], cells)


TABLES: dict[str, Callable[[], str]] = {
    "eigenvectors: accuracy": lambda: compare("eigenvectors", accuracy),
    "eigenvectors: changed predictions": lambda: compare("eigenvectors", changed),
    "neighbors: accuracy": lambda: compare("neighbors", accuracy),
    "table1: accuracy": lambda: compare("table1", accuracy),
    "departures: accuracy": lambda: compare("departures", accuracy),
    "departures: changed predictions": lambda: compare("departures", changed),
    "departures: correlations of the orders": lambda: compare("departures", correlations),
    "dynamics": compare_dynamics,
    "random-rfn": compare_random_rfn,
}


def main() -> None:
    for name, table in TABLES.items():
        print(f"{name}\n\n{table()}\n")


if __name__ == "__main__":
    main()
