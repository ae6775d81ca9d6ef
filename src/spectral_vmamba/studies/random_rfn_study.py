"""Supplement E of the paper: RFN with random angles in training, in use with quarter turns and with other angles."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch

from spectral_vmamba.inference import Predictor
from spectral_vmamba.layers.rfn import Turns
from spectral_vmamba.studies.row_tables import markdown, percent
from spectral_vmamba.studies.scales import SPECTRAL
from spectral_vmamba.studies.study import Job, StudyOptions
from spectral_vmamba.studies.training_jobs import TrainedRow, TrainedRun, by_network, row_fields, training_jobs
from spectral_vmamba.studies.variants import networks
from spectral_vmamba.utils.progress import Progress

QUARTERS: Turns = (0.0, 90.0, 180.0, 270.0)


@dataclass(frozen=True)
class RandomRfnRow(TrainedRow):
    """Shares, 0 to 1: upright, mean of all angles and least agreement, with each choice of RFN's angles in use.

    `used` are these choices. `random` angles are one of each quarter of the circle, drawn once from the seed.
    """

    images: int
    used: tuple[str, ...]
    upright: tuple[float, ...]
    mean: tuple[float, ...]
    least_agreement: tuple[float, ...]


@dataclass(frozen=True)
class RandomRfnStudy:
    name: str = "random-rfn"
    title: str = "RFN with random angles in training and in use"
    source: str = "supplement E"
    row: type[RandomRfnRow] = RandomRfnRow

    def plan(self, options: StudyOptions) -> list[Job[RandomRfnRow]]:
        if options.scale == "lite":
            raise ValueError(
                "random-rfn turns images by new angles in every step, but the scale lite caches their features; choose "
                "the scale digits, nano or paper"
            )
        (spectral,) = networks(options.settings_of_scale, SPECTRAL)
        variants = [
            spectral.with_options("trained with quarter turns"),
            spectral.with_options("trained with random angles", turns="random"),
        ]

        def measure(run: TrainedRun, progress: Progress) -> RandomRfnRow:
            choices = {"quarter turns": QUARTERS, "random angles": random_angles(run.seed)}
            sweeps = [
                run.evaluate(options, options.step, progress, with_angles(run.predictor, turns)).sweeps[0]
                for turns in choices.values()
            ]
            return RandomRfnRow(
                **row_fields(run),
                images=sweeps[0].upright.images,
                used=tuple(choices),
                upright=tuple(sweep.upright.accuracy for sweep in sweeps),
                mean=tuple(sweep.mean_accuracy for sweep in sweeps),
                least_agreement=tuple(min(point.agreement for point in sweep.points) for sweep in sweeps),
            )

        return training_jobs(options, variants, measure, {"random-rfn": options.step})

    def summarize(self, rows: Sequence[RandomRfnRow]) -> str:
        cells = random_rfn_cells(rows)
        headings = ("network", "in use", "upright", "mean of angles", "least agreement")
        count = rows[0].images if rows else 0
        return f"{markdown(headings, cells)}\n\nPercent of {count:,} test images, without a frame."


def random_rfn_cells(rows: Sequence[RandomRfnRow]) -> list[tuple[str, ...]]:
    """A row for each network and choice of angles in use."""
    return [
        (
            network,
            used,
            *(percent([getattr(row, name)[place] for row in seeds]) for name in ("upright", "mean", "least_agreement")),
        )
        for (network, _), seeds in by_network(rows).items()
        for place, used in enumerate(seeds[0].used)
    ]


def random_angles(seed: int) -> tuple[float, ...]:
    """One angle of each quarter of the circle, as the supplement draws them in every step."""
    generator = torch.Generator().manual_seed(seed)
    lowest, highest = torch.tensor([0.0, 91.0, 181.0, 271.0]), torch.tensor([90.0, 180.0, 270.0, 360.0])
    return tuple((lowest + (highest - lowest) * torch.rand(4, generator=generator)).tolist())


def with_angles(predictor: Predictor, turns: Turns) -> Predictor:
    """The same weights with other angles of RFN."""
    model: Any = deepcopy(predictor.model)
    model.tokenizer.rfn.turns = turns
    return replace(predictor, model=model)
