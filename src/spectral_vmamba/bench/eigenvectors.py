"""How fast the graph eigenvectors are found, on the patch graphs of real photographs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csr_array
from torch import Tensor

from spectral_vmamba.bench import eigen_peers
from spectral_vmamba.bench.settings import Settings, Track
from spectral_vmamba.bench.timing import (
    Comparison,
    Timing,
    best_seconds,
    compare,
    failure_line,
    growth_exponent,
    seconds_of,
)
from spectral_vmamba.data import normalize, photograph_crops
from spectral_vmamba.models import create_model
from spectral_vmamba.ops.spectral import affinity

WANTED, GUARD, NEIGHBORS = 4, 2, 5
# tokens → images in a batch
BATCHES = {196: 8, 784: 8, 3136: 8, 12544: 8}
NATIVE, DENSE = "native", "dense eigh"
# name → (solver, the most tokens it is tried on)
PEERS = {
    "eigsh shift-invert": (eigen_peers.shift_invert, 12544),
    "eigsh on I − L": (eigen_peers.largest_of_complement, 12544),
    "torch.lobpcg": (eigen_peers.lobpcg, 784),
    DENSE: (eigen_peers.dense, 3136),
}
# Solves the first so many images of the batch; native always solves all.
SolveFirst = Callable[[int], list[np.ndarray]]
# A batch that would take longer is not solved: one image is, once, and its time multiplied.
LONGEST_BATCH = 15.0
# Up to here the answers are compared with the dense ones.
COMPARED_UP_TO = 784


@dataclass(frozen=True)
class Accuracy:
    """Over the images: the largest ‖Lv − λv‖ of the trivial and wanted vectors and of the guards, and the largest angle
    (radians) between the former and those of the dense solver; None where dense did not solve the same images."""

    residual: float
    guard_residual: float
    angle: float | None


@dataclass(frozen=True)
class EigenvectorCell:
    tokens: int
    batch: int
    comparison: Comparison  # seconds a batch
    scaled: list[str]  # whose time is one image's, multiplied
    accuracy: dict[str, Accuracy]
    smallest_gap: float | None  # between the last wanted eigenvalue and the next: how well the subspace is determined
    graph_seconds: float | None  # of building the batch's graphs, which no other time includes


@dataclass(frozen=True)
class EigenvectorResult:
    ours: str | None
    pairs: int
    cells: list[EigenvectorCell]
    growth: dict[str, float]  # of the time per image, in the tokens
    notices: list[str]


def native_solver() -> tuple[Any | None, list[str]]:
    """The module with `neighbor_graphs` and `sparse_eigenpairs` if they work here, else a line why not."""
    try:
        from spectral_vmamba.ops.spectral import sparse

        sparse.sparse_eigenpairs(sparse.neighbor_graphs(torch.rand(1, 64, 8), NEIGHBORS), WANTED + GUARD)
    except Exception as error:  # no module, no library, or a library of another version
        why = failure_line(error)
        return None, [f"the native eigensolver is not built ({why}); only the others are timed, up to 3136 tokens"]
    return sparse, []


def measure_eigenvectors(settings: Settings, track: Track) -> EigenvectorResult:
    native, notices = native_solver()
    batches = {64: 2, 196: 2} if settings.quick else {t: b for t, b in BATCHES.items() if native or t <= 3136}
    cells = [_measure_cell(native, t, batches[t], settings.seed) for t in track(list(batches), "eigenvectors")]
    names = dict.fromkeys(name for cell in cells for name in cell.comparison.timings)
    growth = {}
    for name in names:
        timed = [cell for cell in cells if name in cell.comparison.timings]
        points = [(cell.tokens, cell.comparison.timings[name].seconds / cell.batch) for cell in timed]
        growth[name] = growth_exponent(*zip(*points, strict=True))
    points = [(cell.tokens, cell.graph_seconds / cell.batch) for cell in cells if cell.graph_seconds]
    if points:
        growth["graphs"] = growth_exponent(*zip(*points, strict=True))
    return EigenvectorResult(NATIVE if native else None, WANTED + GUARD, cells, growth, notices)


def photograph_features(tokens: int, batch: int, seed: int) -> Float[Tensor, "b l c"]:
    """What the nano model's stem, with its first random weights, sees in windows of photographs."""
    side = isqrt(tokens)
    torch.manual_seed(seed)
    model = create_model("spectral_vmamba_nano").eval()
    crops = photograph_crops(batch, model.config.patch_size * side, seed)
    images = normalize(crops, model.pretrained_cfg["mean"], model.pretrained_cfg["std"])
    with torch.no_grad():
        return model.tokenizer.rfn(images).flatten(2).mT.contiguous()


def _measure_cell(native: Any | None, tokens: int, batch: int, seed: int) -> EigenvectorCell:
    features = photograph_features(tokens, batch, seed)
    if native is None:
        graphs, graph_seconds = None, None
        graph_matrices = [csr_array(matrix.numpy()) for matrix in affinity(features.double(), NEIGHBORS)]
    else:
        graph_seconds = best_seconds(lambda: native.neighbor_graphs(features, NEIGHBORS))
        graphs = native.neighbor_graphs(features, NEIGHBORS)
        graph_matrices = [graphs.affinity(i) for i in range(batch)]
    laplacians = [eigen_peers.normalized_laplacian(matrix) for matrix in graph_matrices]
    solvers = _native(native, graphs) | {
        name: _image_by_image([prepare(laplacian, WANTED + GUARD + 1) for laplacian in laplacians])
        for name, (prepare, most_tokens) in PEERS.items()
        if tokens <= most_tokens
    }
    return _race(solvers, laplacians, graph_seconds)


def _native(native: Any | None, graphs: Any) -> dict[str, SolveFirst]:
    if native is None:
        return {}

    def solve(images: int) -> list[np.ndarray]:
        pairs, trivial = native.sparse_eigenpairs(graphs, WANTED + GUARD)
        return list(torch.cat([trivial[:, None], pairs.vectors], 1).mT.numpy())

    return {NATIVE: solve}


def _image_by_image(solves: list[Callable[[], np.ndarray]]) -> SolveFirst:
    return lambda images: [solve() for solve in solves[:images]]


def _race(
    solvers: dict[str, SolveFirst], laplacians: list[eigen_peers.Sparse], graph_seconds: float | None
) -> EigenvectorCell:
    batch = len(laplacians)
    answers: dict[str, list[np.ndarray]] = {}
    competitors, scaled, failures = {}, {}, {}

    def run(name: str, images: int) -> None:
        answers[name] = solvers[name](images)

    for name in solvers:
        try:
            one = 0.0 if name == NATIVE else seconds_of(partial(run, name, 1))
        except Exception as error:  # a foreign solver that does not converge
            failures[name] = failure_line(error)
            continue
        if one * batch > LONGEST_BATCH:
            scaled[name] = Timing(one * batch, 1)
        else:
            competitors[name] = partial(run, name, batch)
    comparison = compare(competitors, ours=NATIVE)
    comparison = Comparison(comparison.timings | scaled, comparison.failures | failures)
    accuracy = {name: _accuracy(found, answers.get(DENSE), laplacians) for name, found in answers.items()}
    gap = _smallest_gap(answers.get(DENSE, []), laplacians)
    return EigenvectorCell(laplacians[0].shape[0], batch, comparison, list(scaled), accuracy, gap, graph_seconds)


def _accuracy(
    found: list[np.ndarray], exact: list[np.ndarray] | None, laplacians: list[eigen_peers.Sparse]
) -> Accuracy:
    pairs = list(zip(found, laplacians, strict=False))
    wanted, guards = slice(0, WANTED + 1), slice(WANTED + 1, None)
    residual = max(eigen_peers.largest_residual(laplacian, basis[:, wanted]) for basis, laplacian in pairs)
    guard_residual = max(eigen_peers.largest_residual(laplacian, basis[:, guards]) for basis, laplacian in pairs)
    if exact is None or len(exact) < len(found) or len(found[0]) > COMPARED_UP_TO:
        return Accuracy(residual, guard_residual, None)
    angles = [eigen_peers.principal_angle(e[:, wanted], f[:, wanted]) for e, f in zip(exact, found, strict=False)]
    return Accuracy(residual, guard_residual, max(angles))


def _smallest_gap(exact: list[np.ndarray], laplacians: list[eigen_peers.Sparse]) -> float | None:
    gaps = []
    for basis, laplacian in zip(exact, laplacians, strict=False):
        values = (basis * (laplacian @ basis)).sum(0)
        gaps.append(float(values[WANTED + 1] - values[WANTED]))
    return min(gaps, default=None)
