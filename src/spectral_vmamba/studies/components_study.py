"""Disconnected graphs, which the paper leaves to future work: how many there are, and three ways to traverse them."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
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
from spectral_vmamba.ops.spectral.rules import Components
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

_IMAGES = 1024
_RULES: dict[str, Components] = {
    "bridged": "bridged",
    "left as they are": "unbridged",
    "visited piece by piece": "piecewise",
}
_ANGLE, _NOISE = 15.0, 0.02
_UNBRIDGED = GraphRules(components="unbridged")


@dataclass(frozen=True)
class ComponentsRow(TrainedRow):
    """Shares, 0 to 1. Of `counted` test images, `disconnected` have a graph of several pieces.

    Of those: the mean number of pieces, and the rank correlations of the visiting orders with those of the image turned
    by 15°, and of the image with noise of 2 % of the pixels' standard deviation; None if there is no such image. They
    are measured for all rules on the stem of this network, so that the rules are compared on the same graphs.
    """

    images: int
    top1: float
    quarter_flips: int
    counted: int
    disconnected: int
    pieces: float | None
    correlation_turned: dict[str, float] | None
    correlation_with_noise: dict[str, float] | None


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
                _mean([row.pieces for row in seeds]),
            )
            for (network, _), seeds in by_network(rows).items()
        ]
        headings = ("graphs of several pieces are", "top-1", "quarter flips", "disconnected", "pieces")
        count, counted = (rows[0].images, rows[0].counted) if rows else (0, 0)
        return (
            f"{markdown(headings, cells)}\n\n“top-1”: percent of {count:,} upright test images; “disconnected”: "
            f"percent of {counted:,} test images whose graph has several pieces, and how many pieces. Without a frame."
            f"\n\n{_summarize_stability(rows)}"
        )


def _summarize_stability(rows: Sequence[ComponentsRow]) -> str:
    cells = [
        (
            label,
            *(
                _mean([None if (found := getattr(row, name)) is None else found[label] for row in rows])
                for name in ("correlation_turned", "correlation_with_noise")
            ),
        )
        for label in _RULES
    ]
    table = markdown(("graphs of several pieces are", "correlation at 15°", "with noise"), cells)
    return (
        f"{table}\n\nRank correlation of the visiting orders of the disconnected images with those of the image turned "
        "by 15°, and of the image with noise (2 % of the standard deviation of the pixels): every rule on the stem of "
        f"every network, mean of {len(rows)} stems."
    )


_OF_DISCONNECTED = ("pieces", "correlation_turned", "correlation_with_noise")


def component_variants(scale: Scale) -> list[Variant]:
    (spectral,) = networks(scale, SPECTRAL)
    return [spectral.with_options(label, components=rule) for label, rule in _RULES.items()]


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
    by_rule = {label: _with_rule(tokenizer, rule) for label, rule in _RULES.items()}
    return {
        **found,
        "pieces": float(counts[counts > 1].double().mean()),
        "correlation_turned": {label: _compare(each, chosen, turned, _ANGLE) for label, each in by_rule.items()},
        "correlation_with_noise": {label: _compare(each, chosen, noisy, 0.0) for label, each in by_rule.items()},
    }


def _with_rule(tokenizer: SpectralTokenizer, rule: Components) -> SpectralTokenizer:
    """The same stem, with another rule for graphs of several pieces."""
    changed = copy(tokenizer)
    changed.rules = replace(tokenizer.rules, components=rule)
    return changed


def count_pieces(tokenizer: SpectralTokenizer, images: Float[Tensor, "b c h w"]) -> Int[Tensor, "b"]:
    """The number of connected pieces of each image's graph, without edges that bridge them."""
    features = tokenizer.features(images)[0].double()
    graphs = affinity(features, tokenizer.config.neighbors, rules=_UNBRIDGED)
    return torch.tensor([connected_components(graph.numpy() > 0, return_labels=False) for graph in graphs.cpu()])


def _compare(
    tokenizer: SpectralTokenizer, before: Float[Tensor, "b c h w"], after: Float[Tensor, "b c h w"], angle: float
) -> float:
    first, second = (tokenizer.eval()(images).image_traversal() for images in (before, after))
    return float(traversal_gap(first, second, angle).correlations.abs().mean())


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{mean(known):.2f}" if known else "–"
