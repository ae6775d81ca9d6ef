"""Figure 4 of the paper: accuracy and agreement at every angle, of networks that were trained on upright images."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from spectral_vmamba.studies.row_tables import markdown, percent
from spectral_vmamba.studies.scales import CROSS_RFN, NO_RFN, SPECTRAL, VMAMBA
from spectral_vmamba.studies.study import Job, StudyOptions
from spectral_vmamba.studies.training_jobs import TrainedRow, TrainedRun, by_network, row_fields, training_jobs
from spectral_vmamba.studies.variants import networks
from spectral_vmamba.utils.progress import Progress


@dataclass(frozen=True)
class RotationRow(TrainedRow):
    """Shares, 0 to 1, at each angle. `quarter_flips` counts changed predictions at 90, 180 and 270°."""

    images: int
    angles: tuple[float, ...]
    accuracy: tuple[float, ...]
    agreement: tuple[float, ...]
    quarter_flips: int

    @property
    def upright(self) -> float:
        return self.accuracy[self.angles.index(0)]

    @property
    def mean(self) -> float:
        return sum(self.accuracy) / len(self.accuracy)

    @property
    def between(self) -> float:
        """Mean accuracy between quarter turns."""
        values = [value for angle, value in zip(self.angles, self.accuracy, strict=True) if angle % 90]
        return sum(values) / len(values) if values else nan

    @property
    def worst(self) -> float:
        return min(self.accuracy)

    @property
    def least_agreement(self) -> float:
        return min(self.agreement)


@dataclass(frozen=True)
class RotationStudy:
    name: str = "rotation"
    title: str = "accuracy and agreement at every angle, with and without a frame"
    source: str = "Fig. 4"
    row: type[RotationRow] = RotationRow

    def plan(self, options: StudyOptions) -> list[Job[RotationRow]]:
        scale = options.settings_of_scale
        compared = networks(scale, SPECTRAL, NO_RFN, VMAMBA, CROSS_RFN)
        variants = [variant.with_frame(frame) for frame in scale.frames for variant in compared]

        def measure(run: TrainedRun, progress: Progress) -> RotationRow:
            sweep = run.evaluate(options, options.step, progress).sweeps[0]
            return RotationRow(
                **row_fields(run),
                images=sweep.upright.images,
                angles=tuple(point.angle for point in sweep.points),
                accuracy=tuple(point.accuracy for point in sweep.points),
                agreement=tuple(point.agreement for point in sweep.points),
                quarter_flips=sum(point.flips for point in sweep.quarters),
            )

        return training_jobs(options, variants, measure, {"rotation": options.step})

    def summarize(self, rows: Sequence[RotationRow]) -> str:
        cells = [
            (
                network,
                frame,
                *(percent([getattr(row, name) for row in seeds]) for name in ("upright", "mean", "between", "worst")),
                percent([row.least_agreement for row in seeds]),
                ", ".join(str(row.quarter_flips) for row in seeds),
            )
            for (network, frame), seeds in by_network(rows).items()
        ]
        headings = (
            "network",
            "frame",
            "upright",
            "mean of angles",
            "between quarter turns",
            "worst angle",
            "least agreement",
            "quarter flips",
        )
        count = rows[0].images if rows else 0
        return (
            f"{markdown(headings, cells)}\n\nPercent of {count:,} test images; “quarter flips”: predictions that "
            "change at 90, 180 and 270°, summed, for each seed."
        )
