"""Supplement C of the paper: effective receptive fields before and after training."""

from collections.abc import Sequence
from dataclasses import dataclass

from spectral_vmamba.data.seeding import MODEL, preserve_generators, reseed
from spectral_vmamba.metrics.receptive_field import SHARES, ReceptiveField, measure_receptive_field
from spectral_vmamba.models import create_model
from spectral_vmamba.studies.row_tables import markdown, percent
from spectral_vmamba.studies.scales import SPECTRAL, VMAMBA
from spectral_vmamba.studies.study import Job, StudyOptions
from spectral_vmamba.studies.training_jobs import TrainedRow, TrainedRun, by_network, row_fields, training_jobs
from spectral_vmamba.studies.variants import networks
from spectral_vmamba.training.classification_task import training_options
from spectral_vmamba.utils.progress import Progress

IMAGES = 32
WHEN = ("before training", "after training")


@dataclass(frozen=True)
class ReceptiveFieldRow(TrainedRow):
    """`areas` are shares of the area that hold 20, 50 and 99 % of the gradient, before and after training; `maps` the
    gradients of the pixels, relative to the largest, in thousandths."""

    images: int
    areas: tuple[tuple[float, ...], ...]
    maps: tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True)
class ReceptiveFieldStudy:
    name: str = "erf"
    title: str = "effective receptive fields before and after training"
    source: str = "supplement C"
    row: type[ReceptiveFieldRow] = ReceptiveFieldRow

    def plan(self, options: StudyOptions) -> list[Job[ReceptiveFieldRow]]:
        variants = networks(options.settings_of_scale, SPECTRAL, VMAMBA)

        return training_jobs(options, variants, measure_fields, {"erf": IMAGES})

    def summarize(self, rows: Sequence[ReceptiveFieldRow]) -> str:
        cells = [
            (network, when, *(percent([row.areas[i][j] for row in seeds]) for j in range(len(SHARES))))
            for (network, _), seeds in by_network(rows).items()
            for i, when in enumerate(WHEN)
        ]
        headings = ("network", "when", *(f"area with {100 * share:g} %" for share in SHARES))
        count = rows[0].images if rows else 0
        return (
            f"{markdown(headings, cells)}\n\nThe smallest share of the area, in percent, that holds 20, 50 and 99 % of "
            f"the gradient of the central feature; mean over {count} test images."
        )


def measure_fields(run: TrainedRun, progress: Progress) -> ReceptiveFieldRow:
    predictor = run.predictor
    images = run.test_images(IMAGES)
    with preserve_generators():
        reseed(MODEL, run.seed)  # the weights that the run began with
        fresh = create_model(run.config.model, num_classes=len(predictor.classes), **training_options(run.config))
    fields = [measure_receptive_field(model, images, progress) for model in (fresh, predictor.model)]
    return ReceptiveFieldRow(
        **row_fields(run),
        images=len(images),
        areas=tuple(each.areas for each in fields),
        maps=tuple(_thousandths(each) for each in fields),
    )


def _thousandths(field: ReceptiveField) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in (1000 * field.contributions).round().astype(int).tolist())
