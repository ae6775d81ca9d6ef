"""Studies that compare one number, the accuracy: Figure 5 (eigenvectors), Table 2 (neighbors), and visiting orders."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spectral_vmamba.models import options_off_default
from spectral_vmamba.studies.row_tables import difference, markdown, percent
from spectral_vmamba.studies.scales import CROSS_RFN, RANDOM, SPECTRAL, VMAMBA
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

QUARTERS = 90.0


@dataclass(frozen=True)
class AccuracyRow(TrainedRow):
    """Shares, 0 to 1, on upright test images. `quarter_flips` counts changed predictions at 90, 180 and 270°."""

    images: int
    top1: float
    top5: float
    trainable_parameters: int
    quarter_flips: int


@dataclass(frozen=True)
class AccuracyStudy:
    """Networks whose accuracy on upright images is compared. `reference` names the one that each is compared with."""

    name: str
    title: str
    source: str
    variants: Callable[[StudyOptions], list[Variant]]
    reference: Callable[[str], str]
    row: type[AccuracyRow] = AccuracyRow

    def plan(self, options: StudyOptions) -> list[Job[AccuracyRow]]:
        def measure(run: TrainedRun, progress: Progress) -> AccuracyRow:
            evaluation = run.evaluate(options, QUARTERS, progress)
            return AccuracyRow(
                **row_fields(run),
                images=evaluation.scores.images,
                top1=evaluation.scores.top1,
                top5=evaluation.scores.top5,
                trainable_parameters=run.trainable_parameters,
                quarter_flips=count_quarter_flips(evaluation),
            )

        return training_jobs(options, self.variants(options), measure, {"accuracy": QUARTERS})

    def summarize(self, rows: Sequence[AccuracyRow]) -> str:
        groups = {network: seeds for (network, _), seeds in by_network(rows).items()}
        cells = [
            (
                network,
                f"{seeds[0].trainable_parameters:,}",
                percent([row.top1 for row in seeds]),
                self._against_reference(groups, network),
                percent([row.top5 for row in seeds]),
                ", ".join(str(row.quarter_flips) for row in seeds),
            )
            for network, seeds in groups.items()
        ]
        headings = ("network", "trainable parameters", "top-1", "difference", "top-5", "quarter flips")
        count = rows[0].images if rows else 0
        names = [name for name in dict.fromkeys(map(self.reference, groups)) if name in groups]
        references = " or ".join(f"“{name}”" for name in names)
        difference = f"“difference”: of top-1 to {references}, over the seeds that both have; " if names else ""
        return (
            f"{markdown(headings, cells)}\n\nPercent of {count:,} upright test images; {difference}“quarter flips”: "
            "predictions that change at 90, 180 and 270°, summed, for each seed."
        )

    def _against_reference(self, groups: Mapping[str, Sequence[AccuracyRow]], network: str) -> str:
        reference = self.reference(network)
        if network == reference or reference not in groups:
            return "–"
        others = {row.seed: row.top1 for row in groups[reference]}
        pairs = [(row.top1, others[row.seed]) for row in groups[network] if row.seed in others]
        return difference(*zip(*pairs, strict=True)) if pairs else "–"


def eigenvector_variants(options: StudyOptions) -> list[Variant]:
    spectral, random, vmamba = networks(options.settings_of_scale, SPECTRAL, RANDOM, VMAMBA)
    counts = [spectral.with_options(f"m = {m}", eigenvectors=m) for m in (1, 2, 3, 4)]
    return [*counts, random.with_options("random orders", eigenvectors=4), vmamba]


def neighbor_variants(options: StudyOptions) -> list[Variant]:
    (spectral,) = networks(options.settings_of_scale, SPECTRAL)
    choices: list[tuple[str, Any]] = [(f"k = {k}", k) for k in (5, 10, 15, 20, 25)]
    return [spectral.with_options(label, neighbors=k) for label, k in [*choices, ("all pairs", "none")]]


def order_variants(options: StudyOptions) -> list[Variant]:
    """Networks with RFN that visit tokens in spectral, VMamba's and random orders; also without local mixing, unless
    the user chooses it.

    Two eigenvectors are four paths, as many as those of VMamba: all have the same number of parameters.
    """
    spectral, cross, random = networks(options.settings_of_scale, SPECTRAL, CROSS_RFN, RANDOM)
    ordered = [
        spectral.with_options(spectral.label, eigenvectors=2),
        cross,
        random.with_options(random.label, eigenvectors=2),
    ]
    mixes = options_off_default(spectral.settings["model"], {"local_mixing": "none"})
    if not mixes or "local_mixing" in options.model_options:
        return ordered
    return ordered + [
        variant.with_options(f"{variant.label}, no local mixing", local_mixing="none") for variant in ordered
    ]


def _spectral_counterpart(label: str) -> str:
    """The label of the network with spectral orders that is otherwise the same."""
    return label.replace(CROSS_RFN, SPECTRAL).replace(RANDOM, SPECTRAL)


ORDERS = AccuracyStudy(
    "orders",
    "accuracy with spectral, raster and random orders",
    "not in the paper",
    order_variants,
    reference=_spectral_counterpart,
)
EIGENVECTORS = AccuracyStudy(
    "eigenvectors",
    "accuracy against the number of eigenvectors",
    "Fig. 5",
    eigenvector_variants,
    reference=lambda _: "m = 4",
)
NEIGHBORS = AccuracyStudy(
    "neighbors",
    "accuracy against the neighbors in the graph",
    "Table 2",
    neighbor_variants,
    reference=lambda _: "k = 5",
)
