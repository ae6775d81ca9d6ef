"""Disconnected graphs, which the paper leaves to future work: how many there are, and three ways to traverse them."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

import torch
from jaxtyping import Float, Int
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from spectral_vmamba.data.seeding import preserve_generators
from spectral_vmamba.metrics.traversal_gap import traversal_gap
from spectral_vmamba.models import SpectralTokenizer
from spectral_vmamba.ops.spectral import GraphRules, affinity
from spectral_vmamba.ops.traversal import Traversal
from spectral_vmamba.ops.turns import rotate
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

_IMAGES = 256
_ANGLE, _NOISE = 15.0, 0.02
_UNBRIDGED = GraphRules(components="unbridged")


@dataclass(frozen=True)
class ComponentsRow(TrainedRow):
    """Shares, 0 to 1. Of `counted` test images, `disconnected` have a graph of several pieces.

    Of those: the mean number of pieces, and the rank correlations of the visiting orders with those of the image turned
    by 15°, and of the image with noise of 2 % of the pixels' standard deviation; None if there is no such image.
    """

    images: int
    top1: float
    quarter_flips: int
    counted: int
    disconnected: int
    pieces: float | None
    correlation_turned: float | None
    correlation_with_noise: float | None


@dataclass(frozen=True)
class ComponentsStudy:
    name: str = "components"
    title: str = "disconnected graphs, and ways to traverse them"
    source: str = "future work of the paper"
    row: type[ComponentsRow] = ComponentsRow

    def plan(self, options: StudyOptions) -> list[Job[ComponentsRow]]:
        def measure(run: TrainedRun, progress: Progress) -> ComponentsRow:
            evaluation = run.evaluate(options, QUARTERS, progress)
            tokenizer: Any = run.predictor.model.tokenizer
            return ComponentsRow(
                **row_fields(run),
                images=evaluation.scores.images,
                top1=evaluation.scores.top1,
                quarter_flips=count_quarter_flips(evaluation),
                **_measure_stability(tokenizer, run.test_images(_IMAGES), run.seed),
            )

        variants = component_variants(options.settings_of_scale)
        return training_jobs(options, variants, measure, {"components": [_IMAGES, _ANGLE, _NOISE]})

    def summarize(self, rows: Sequence[ComponentsRow]) -> str:
        cells = [
            (
                network,
                percent([row.top1 for row in seeds]),
                ", ".join(str(row.quarter_flips) for row in seeds),
                percent([row.disconnected / row.counted for row in seeds]),
                *(_mean([getattr(row, name) for row in seeds]) for name in _OF_DISCONNECTED),
            )
            for (network, _), seeds in by_network(rows).items()
        ]
        headings = (
            "graphs of several pieces are",
            "top-1",
            "quarter flips",
            "disconnected",
            "pieces",
            "correlation at 15°",
            "with noise",
        )
        count, counted = (rows[0].images, rows[0].counted) if rows else (0, 0)
        return (
            f"{markdown(headings, cells)}\n\n“top-1”: percent of {count:,} upright test images; “disconnected”: "
            f"percent of {counted} test images whose graph has several pieces. Of those: how many pieces, and the rank "
            "correlation of the visiting orders with those of the image turned by 15°, and of the image with noise "
            "(2 % of the standard deviation of the pixels). Without a frame."
        )


_OF_DISCONNECTED = ("pieces", "correlation_turned", "correlation_with_noise")


def component_variants(scale: Scale) -> list[Variant]:
    (spectral,) = networks(scale, SPECTRAL)
    labels = {"bridged": "bridged", "unbridged": "left as they are", "piecewise": "visited piece by piece"}
    return [spectral.with_options(label, components=rule) for rule, label in labels.items()]


@torch.no_grad()
def _measure_stability(tokenizer: SpectralTokenizer, images: Float[Tensor, "b c h w"], seed: int) -> dict[str, Any]:
    counts = torch.cat([count_pieces(tokenizer, batch) for batch in images.split(32)])
    chosen = images[counts > 1]
    found: dict[str, Any] = {"counted": len(images), "disconnected": len(chosen), **dict.fromkeys(_OF_DISCONNECTED)}
    if len(chosen) == 0:
        return found
    with preserve_generators():
        torch.manual_seed(seed)
        noisy = chosen + _NOISE * chosen.std() * torch.randn_like(chosen)
    turned = rotate(chosen, _ANGLE)
    return {
        **found,
        "pieces": float(counts[counts > 1].double().mean()),
        "correlation_turned": _correlation(_traversal(tokenizer, chosen), _traversal(tokenizer, turned), _ANGLE),
        "correlation_with_noise": _correlation(_traversal(tokenizer, chosen), _traversal(tokenizer, noisy), 0.0),
    }


def count_pieces(tokenizer: SpectralTokenizer, images: Float[Tensor, "b c h w"]) -> Int[Tensor, "b"]:
    """The number of connected pieces of each image's graph, without edges that bridge them."""
    features = tokenizer.features(images)[0].double()
    graphs = affinity(features, tokenizer.config.neighbors, rules=_UNBRIDGED)
    return torch.tensor([connected_components(graph.numpy() > 0, return_labels=False) for graph in graphs.cpu()])


def _traversal(tokenizer: SpectralTokenizer, images: Float[Tensor, "b c h w"]) -> Traversal:
    return tokenizer.eval()(images).image_traversal()


def _correlation(before: Traversal, after: Traversal, angle: float) -> float:
    return float(traversal_gap(before, after, angle).correlations.abs().mean())


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{mean(known):.2f}" if known else "–"
