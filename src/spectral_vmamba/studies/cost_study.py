"""Figure 6 of the paper: time and memory of STS, and of the VMamba backbone, against the number of tokens."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from spectral_vmamba.data import normalize, photographs, resize
from spectral_vmamba.metrics.environment import describe_processor
from spectral_vmamba.models import SpectralConfig, SpectralTokenizer, create_model, stem_normalization
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.selective_scan import missing_backends
from spectral_vmamba.ops.spectral import (
    affinity,
    neighbor_graphs,
    normalized_laplacian,
    smallest_eigenpairs,
    sparse_eigenpairs,
    spectral_traversal,
)
from spectral_vmamba.studies.row_tables import markdown
from spectral_vmamba.studies.study import Job, StudyOptions, refuse_options
from spectral_vmamba.utils.peak_memory import measure_growth, release_free_memory

SIDES = (7, 14, 28, 42, 56, 84, 112)
BACKBONE, STEM = "vmamba_tiny", "timm:tf_efficientnet_lite0"
_EIGENVECTORS, _GUARD, _NEIGHBORS = 4, 2, 5
_LARGEST_DENSE = 3136  # tokens that are measured without the native library
_BEST_OF, _LONG = 3, 5.0


@dataclass(frozen=True)
class CostRow:
    """Seconds and bytes for one image. Memory is the growth of resident memory at its peak, None where not measured."""

    tokens: int
    graph_seconds: float
    eigenvector_seconds: float
    order_seconds: float
    backbone_seconds: float
    sts_bytes: int | None
    backbone_bytes: int | None

    @property
    def sts_seconds(self) -> float:
        return self.graph_seconds + self.eigenvector_seconds + self.order_seconds


@dataclass(frozen=True)
class CostStudy:
    """`sides` are the tokens per side of the square grids."""

    name: str = "cost"
    title: str = "time and memory of STS and of VMamba against the tokens"
    source: str = "Fig. 6"
    row: type[CostRow] = CostRow
    sides: tuple[int, ...] = SIDES

    def plan(self, options: StudyOptions) -> list[Job[CostRow]]:
        refuse_options(options, self.name)
        native = "native" not in missing_backends()
        sides = [side for side in self.sides if native or side**2 <= _LARGEST_DENSE]
        machine = {"machine": describe_processor(), "threads": torch.get_num_threads()}
        key = {"backbone": BACKBONE, "stem": STEM, "native": native, **machine}
        return [
            Job(f"{side**2:,} tokens", {**key, "side": side}, lambda _, side=side: measure_cost_at(side))
            for side in sides
        ]

    def summarize(self, rows: Sequence[CostRow]) -> str:
        cells = [
            (
                f"{row.tokens:,}",
                *(
                    f"{1e3 * seconds:.1f}"
                    for seconds in (row.graph_seconds, row.eigenvector_seconds, row.order_seconds, row.sts_seconds)
                ),
                f"{1e3 * row.backbone_seconds:.1f}",
                *(_megabytes(size) for size in (row.sts_bytes, row.backbone_bytes)),
            )
            for row in rows
        ]
        headings = ("tokens", "graph", "eigenvectors", "orders", "STS", "VMamba", "STS [MB]", "VMamba [MB]")
        sts, backbone = (
            growth_exponent([row.tokens for row in rows], [getattr(row, name) for row in rows])
            for name in ("sts_seconds", "backbone_seconds")
        )
        return (
            f"{markdown(headings, cells)}\n\nMilliseconds for one image with as many tokens, best of {_BEST_OF}: STS "
            f"of a photograph with patches of 16 px, and {BACKBONE}, whose first stage has patches of 4 px, of noise. "
            f"From {smallest_fitted(rows):,} tokens on, STS grows as tokens^{sts:.2f} and {BACKBONE} as "
            f"tokens^{backbone:.2f}."
        )


def measure_cost_at(side: int) -> CostRow:
    """Measure a photograph with side × side tokens: the stem's patches of 16 px, and VMamba's of 4 px."""
    tokens, grid = stem_tokens(side)
    features, count = tokens.double(), _EIGENVECTORS + _GUARD
    if "native" not in missing_backends():
        graphs = neighbor_graphs(features, _NEIGHBORS)
        parts: list[Callable[[], Any]] = [
            lambda: neighbor_graphs(features, _NEIGHBORS),
            lambda: sparse_eigenpairs(graphs, count, _EIGENVECTORS),
        ]
    else:
        laplacian, trivial = normalized_laplacian(affinity(features, _NEIGHBORS))
        parts = [
            lambda: normalized_laplacian(affinity(features, _NEIGHBORS)),
            lambda: smallest_eigenpairs(laplacian, trivial, count),
        ]
    graph, eigenvectors = (best_seconds(part) for part in parts)

    def whole() -> Tensor:
        return spectral_traversal(tokens, grid, _EIGENVECTORS, _NEIGHBORS).orders

    sts = best_seconds(whole)
    torch.manual_seed(0)
    backbone = create_model(BACKBONE, num_classes=100).eval()
    pixels = torch.randn(1, 3, 4 * side, 4 * side)

    def forward() -> Tensor:
        with torch.no_grad():
            return backbone(pixels)

    seconds = best_seconds(forward)
    return CostRow(
        side**2, graph, eigenvectors, max(sts - graph - eigenvectors, 0.0), seconds, _growth(whole), _growth(forward)
    )


def stem_tokens(side: int, patch_size: int = 16) -> tuple[Tensor, Grid]:
    """The RFN features of a photograph, as tokens of a side × side grid."""
    config = SpectralConfig(stem=STEM, stem_weights="required", patch_size=patch_size, frame="none")
    tokenizer = SpectralTokenizer(config).eval()
    image = resize(photographs()["coffee"][None], side * patch_size)[..., : side * patch_size, : side * patch_size]
    with torch.no_grad():
        tokens, grid, _ = tokenizer.features(normalize(image, *stem_normalization(STEM)))
    return tokens, grid


def best_seconds(work: Callable[[], object]) -> float:
    """The shortest of several calls; of one, if it is long."""
    times: list[float] = []
    while len(times) < _BEST_OF and (not times or times[0] < _LONG):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def smallest_fitted(rows: Sequence[CostRow]) -> int:
    return sorted(row.tokens for row in rows)[len(rows) // 3]


def growth_exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of a line through the logarithms, without the smallest third: those cost calls more than work."""
    points = sorted(zip(sizes, seconds, strict=True))[len(sizes) // 3 :]
    x, y = np.log(points).T
    return float(np.polyfit(x, y, 1)[0])


def _megabytes(size: int | None) -> str:
    if size is None:
        return "–"
    return "<1" if size < 1e6 else f"{size / 1e6:.0f}"


def _growth(work: Callable[[], object]) -> int | None:
    release_free_memory()
    try:
        return max(measure_growth(work), 0)
    except (OSError, ImportError):
        return None
