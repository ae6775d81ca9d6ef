"""What this package does otherwise than the authors' code, switched back one by one."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.metrics.rotation import RotationGap, rotation_gap
from spectral_vmamba.studies.accuracy_studies import QUARTERS
from spectral_vmamba.studies.row_tables import markdown, percent
from spectral_vmamba.studies.scales import SPECTRAL, Scale
from spectral_vmamba.studies.study import Job, StudyOptions
from spectral_vmamba.studies.training_jobs import (
    TrainedRow,
    TrainedRun,
    by_network,
    count_quarter_flips,
    row_fields,
    training_jobs,
)
from spectral_vmamba.studies.variants import Variant, networks
from spectral_vmamba.utils.progress import Progress

_IMAGES = 64
_ANGLES = (90.0, 15.0, 45.0)
# Each without a frame, which would hide what it does to quarter turns.
_ALONE: dict[str, dict[str, Any]] = {
    "sign rule of the paper: first entry positive": {"sign_rule": "first"},
    "sign rule of the code: by token": {"sign_rule": "nodes"},
    "pooling: top-left token": {"pooling": "corner"},
    "graph of in_proj features": {"graph_features": "in_proj"},
    "no spanning edges": {"components": "unbridged"},
    "each token its own neighbor": {"self_neighbor": True},
    "mutual neighbors only": {"edges": "mutual"},
    "σ over the batch": {"distance_scale": "batch"},
}
# The scale lite caches the orders of images, which these change in training; its disk has windows without a corner.
_NOT_OF_LITE = ("pooling", "graph_features", "distance_scale")


@dataclass(frozen=True)
class DepartureRow(TrainedRow):
    """Shares, 0 to 1. `quarter_flips` counts changed predictions of all test images at 90, 180 and 270°.

    Of `compared` test images: the largest difference of a logit at 90°, and between an image alone and in a batch, in
    standard deviations of the logits; the rank correlations of the visiting orders at 15 and 45°.
    """

    images: int
    compared: int
    top1: float
    quarter_flips: int
    difference_at_90: float
    difference_in_batch: float
    correlation_at_15: float
    correlation_at_45: float


@dataclass(frozen=True)
class DeparturesStudy:
    name: str = "departures"
    title: str = "what differs from the authors' code, switched back one by one"
    source: str = "not in the paper"
    row: type[DepartureRow] = DepartureRow

    def plan(self, options: StudyOptions) -> list[Job[DepartureRow]]:
        def measure(run: TrainedRun, progress: Progress) -> DepartureRow:
            evaluation = run.evaluate(options, QUARTERS, progress)
            model, images = run.predictor.model, run.test_images(_IMAGES)
            quarter, *others = rotation_gap(model, images, _ANGLES, len(images), progress)
            return DepartureRow(
                **row_fields(run),
                images=evaluation.scores.images,
                compared=len(images),
                top1=evaluation.scores.top1,
                quarter_flips=count_quarter_flips(evaluation),
                difference_at_90=quarter.max_difference,
                difference_in_batch=difference_in_batch(model, images),
                correlation_at_15=_correlation(others[0]),
                correlation_at_45=_correlation(others[1]),
            )

        variants = departure_variants(options.settings_of_scale)
        return training_jobs(options, variants, measure, {"departures": [_IMAGES, *_ANGLES]})

    def summarize(self, rows: Sequence[DepartureRow]) -> str:
        cells = [
            (
                network,
                frame,
                percent([row.top1 for row in seeds]),
                ", ".join(str(row.quarter_flips) for row in seeds),
                f"{max(row.difference_at_90 for row in seeds):.1e}",
                f"{max(row.difference_in_batch for row in seeds):.1e}",
                f"{mean(row.correlation_at_15 for row in seeds):.2f}",
                f"{mean(row.correlation_at_45 for row in seeds):.2f}",
            )
            for (network, frame), seeds in by_network(rows).items()
        ]
        headings = (
            "network",
            "frame",
            "top-1",
            "quarter flips",
            "difference at 90°",
            "difference in a batch",
            "correlation at 15°",
            "at 45°",
        )
        count, compared = (rows[0].images, rows[0].compared) if rows else (0, 0)
        return (
            f"{markdown(headings, cells)}\n\n“top-1”: percent of {count:,} upright test images; “quarter flips”: "
            "predictions that change at 90, 180 and 270°, summed, for each seed. Differences are the largest of a "
            f"logit over {compared} test images, in standard deviations: turned by 90°, and alone against in a "
            "batch. Correlations of the visiting orders are rank correlations along the eigenvectors."
        )


def departure_variants(scale: Scale) -> list[Variant]:
    (plain,) = networks(scale, SPECTRAL)
    cached = scale.name == "lite"
    alone = {
        label: options
        for label, options in _ALONE.items()
        if not (cached and any(name in options for name in _NOT_OF_LITE))
    }
    variants = [
        Variant("this package", plain.with_frame("quarter").settings),
        Variant("frame off", plain.settings),
        *(plain.with_options(label, **options) for label, options in alone.items()),
    ]
    return variants if cached else [*variants, _published(plain)]


def _published(plain: Variant) -> Variant:
    """All at once: the registered network as published."""
    name = f"{plain.settings['model']}_published"
    return Variant("as published", {**plain.settings, "model": name})


def difference_in_batch(model: nn.Module, images: Float[Tensor, "b c h w"]) -> float:
    """The largest difference of a logit between an image alone and among the others, in standard deviations."""
    with torch.no_grad():
        together = model.eval()(images)
        alone = torch.cat([model(image[None]) for image in images])
    return float((together - alone).abs().max() / together.std(correction=0))


def _correlation(gap: RotationGap) -> float:
    assert gap.rank_correlation is not None
    return gap.rank_correlation
