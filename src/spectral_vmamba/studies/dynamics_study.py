"""Supplement D of the paper: how fast networks learn, by the best accuracy of the averaged weights so far."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from spectral_vmamba.studies.row_tables import markdown, percent
from spectral_vmamba.studies.scales import CROSS_RFN, SPECTRAL, VMAMBA
from spectral_vmamba.studies.study import Job, StudyOptions
from spectral_vmamba.studies.training_jobs import TrainedRow, TrainedRun, by_network, row_fields, training_jobs
from spectral_vmamba.studies.variants import networks
from spectral_vmamba.utils.progress import Progress

THRESHOLDS = (0.5, 0.8, 0.9, 0.95, 1.0)  # as shares of the best accuracy that every network reached


@dataclass(frozen=True)
class DynamicsRow(TrainedRow):
    """`best` is the highest validation accuracy of the averaged weights up to each epoch, 0 to 1."""

    best: tuple[float, ...]

    def epochs_to(self, accuracy: float) -> int | None:
        """The first epoch, from 1 on, with at least this accuracy."""
        return next((epoch for epoch, best in enumerate(self.best, 1) if best >= accuracy), None)


@dataclass(frozen=True)
class DynamicsStudy:
    name: str = "dynamics"
    title: str = "validation accuracy after each epoch"
    source: str = "supplement D"
    row: type[DynamicsRow] = DynamicsRow

    def plan(self, options: StudyOptions) -> list[Job[DynamicsRow]]:
        def measure(run: TrainedRun, progress: Progress) -> DynamicsRow:
            accuracy = [epoch.raw if epoch.ema is None else epoch.ema for epoch in run.result.history]
            return DynamicsRow(**row_fields(run), best=tuple(accumulate(accuracy, max)))

        variants = networks(options.settings_of_scale, SPECTRAL, VMAMBA, CROSS_RFN)
        return training_jobs(options, variants, measure, {"dynamics": "validation"})

    def summarize(self, rows: Sequence[DynamicsRow]) -> str:
        levels, cells = common_levels(rows), dynamics_cells(rows)
        headings = ("network", "best accuracy", *(f"epochs to {100 * level:.1f} %" for level in levels))
        return f"{markdown(headings, cells)}\n\nThe levels are shares of an accuracy that every run reached."


def dynamics_cells(rows: Sequence[DynamicsRow]) -> list[tuple[str, ...]]:
    """For each network, its best accuracy and the epochs to the common levels."""
    levels = common_levels(rows)
    return [
        (network, percent([row.best[-1] for row in seeds]), *(_epochs(seeds, level) for level in levels))
        for (network, _), seeds in by_network(rows).items()
    ]


def common_levels(rows: Sequence[DynamicsRow]) -> list[float]:
    """Accuracies that every run reached."""
    reached = min((row.best[-1] for row in rows), default=0.0)
    return [share * reached for share in THRESHOLDS]


def _epochs(seeds: Sequence[DynamicsRow], level: float) -> str:
    return ", ".join(str(row.epochs_to(level)) for row in seeds)
