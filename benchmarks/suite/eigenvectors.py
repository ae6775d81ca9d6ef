"""Speed and accuracy of the graph eigenvectors, on the patch graphs of photographs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import isqrt

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import subspace_angles
from scipy.sparse import csr_array
from scipy.sparse.csgraph import laplacian
from torch import Tensor

from benchmarks.suite import eigenvector_peers as peers
from benchmarks.suite.eigenvector_peers import Sparse
from benchmarks.suite.settings import Settings
from benchmarks.suite.timing import (
    Comparison,
    Timing,
    best_seconds,
    compare,
    describe_error,
    growth_exponent,
    time_once,
)
from spectral_vmamba.data import normalize, photograph_crops
from spectral_vmamba.models import create_model
from spectral_vmamba.ops.spectral import SparseGraphs, affinity, neighbor_graphs, sparse_eigenpairs
from spectral_vmamba.utils.progress import Progress

WANTED, GUARD, NEIGHBORS = 4, 2, 5
# tokens → images per batch
BATCHES = {196: 8, 784: 8, 3136: 8, 12544: 8}
NATIVE, DENSE = "native", "dense eigh"
# name → (solver, largest number of tokens it is tried on)
PEERS = {
    "eigsh shift-invert": (peers.shift_invert, 12544),
    "eigsh on I − L": (peers.largest_of_complement, 12544),
    "torch.lobpcg": (peers.lobpcg, 784),
    DENSE: (peers.dense, 3136),
}
# Takes the number of images to solve. The native solver ignores it and always solves the batch.
Solver = Callable[[int], list[np.ndarray]]
# If a batch would take more seconds, one image is solved once and its time multiplied.
LONGEST_BATCH = 15.0
# Answers are compared with the dense ones up to this number of tokens.
COMPARED_UP_TO = 784


@dataclass(frozen=True)
class Accuracy:
    """Largest errors over the images.

    `residual` is ‖Lv − λv‖ of the trivial and the wanted vectors, `guard_residual` that of the guard vectors. `angle`
    is the largest principal angle, in radians, between the trivial and wanted vectors and those of the dense solver;
    None where the dense solver did not solve the same images.
    """

    residual: float
    guard_residual: float
    angle: float | None


@dataclass(frozen=True)
class EigenvectorCell:
    """Results at one size.

    `comparison` is in seconds per batch. `scaled` names the solvers whose time is that of one image, multiplied.
    `smallest_gap` lies between the last wanted eigenvalue and the next: the subspace is well determined if it is large.
    `graph_seconds` is the time to build the graphs of the batch, which no other time includes.
    """

    tokens: int
    batch: int
    comparison: Comparison
    scaled: list[str]
    accuracy: dict[str, Accuracy]
    smallest_gap: float | None
    graph_seconds: float | None


@dataclass(frozen=True)
class EigenvectorResult:
    """`growth` is the exponent of the time per image as a power of the tokens."""

    ours: str | None
    pairs: int
    cells: list[EigenvectorCell]
    growth: dict[str, float]
    notices: list[str]


def check_native_solver() -> list[str]:
    """Return a notice if the native eigensolver does not work here, else nothing."""
    try:
        sparse_eigenpairs(neighbor_graphs(torch.rand(1, 64, 8), NEIGHBORS), WANTED + GUARD)
    except Exception as error:  # no library, or a library of another version
        why = describe_error(error)
        return [f"the native eigensolver is not built ({why}); only the others are timed, up to 3136 tokens"]
    return []


def measure_eigenvectors(settings: Settings, progress: Progress) -> EigenvectorResult:
    notices = check_native_solver()
    native = not notices
    batches = {64: 2, 196: 2} if settings.quick else {t: b for t, b in BATCHES.items() if native or t <= 3136}
    sizes = progress(batches, "eigenvectors", len(batches))
    cells = [_measure_cell(native, tokens, batches[tokens], settings.seed) for tokens in sizes]
    names = dict.fromkeys(name for cell in cells for name in cell.comparison.timings)
    growth = {}
    for name in names:
        timed = [cell for cell in cells if name in cell.comparison.timings]
        growth[name] = _growth(timed, [cell.comparison.timings[name].seconds for cell in timed])
    if native:
        growth["graphs"] = _growth(cells, [cell.graph_seconds or np.nan for cell in cells])
    return EigenvectorResult(NATIVE if native else None, WANTED + GUARD, cells, growth, notices)


def _growth(cells: list[EigenvectorCell], seconds: Iterable[float]) -> float:
    per_image = [value / cell.batch for cell, value in zip(cells, seconds, strict=True)]
    return growth_exponent([cell.tokens for cell in cells], per_image)


def photograph_features(tokens: int, batch: int, seed: int) -> Float[Tensor, "b l c"]:
    """Return features of photograph crops, from the stem of the nano model with random weights."""
    side = isqrt(tokens)
    torch.manual_seed(seed)
    model = create_model("spectral_vmamba_nano").eval()
    crops = photograph_crops(batch, model.config.patch_size * side, seed)
    images = normalize(crops, model.pretrained_cfg["mean"], model.pretrained_cfg["std"])
    with torch.no_grad():
        return model.tokenizer.rfn(images).flatten(2).mT.contiguous()


def normalized_laplacian(matrix: Sparse) -> Sparse:
    """Return I − D^(−1/2) W D^(−1/2) of an affinity matrix."""
    return csr_array(laplacian(matrix, normed=True))


def _measure_cell(native: bool, tokens: int, batch: int, seed: int) -> EigenvectorCell:
    features = photograph_features(tokens, batch, seed)
    solvers, graph_seconds = {}, None
    if native:
        graph_seconds = best_seconds(lambda: neighbor_graphs(features, NEIGHBORS))
        graphs = neighbor_graphs(features, NEIGHBORS)
        solvers[NATIVE] = _native_solver(graphs)
        affinities = [graphs.affinity(i) for i in range(batch)]
    else:
        affinities = [csr_array(matrix.numpy()) for matrix in affinity(features.double(), NEIGHBORS)]
    laplacians = [normalized_laplacian(matrix) for matrix in affinities]
    for name, (prepare, most_tokens) in PEERS.items():
        if tokens <= most_tokens:
            solvers[name] = _image_by_image([prepare(matrix, WANTED + GUARD + 1) for matrix in laplacians])
    return _compare_solvers(solvers, laplacians, graph_seconds)


def _native_solver(graphs: SparseGraphs) -> Solver:
    def solve(images: int) -> list[np.ndarray]:
        pairs, trivial = sparse_eigenpairs(graphs, WANTED + GUARD)
        return list(torch.cat([trivial[:, None], pairs.vectors], 1).mT.numpy())

    return solve


def _image_by_image(calls: list[Callable[[], np.ndarray]]) -> Solver:
    return lambda images: [call() for call in calls[:images]]


def _compare_solvers(
    solvers: dict[str, Solver], laplacians: list[Sparse], graph_seconds: float | None
) -> EigenvectorCell:
    batch = len(laplacians)
    answers: dict[str, list[np.ndarray]] = {}
    competitors, scaled, failures = {}, {}, {}

    def solve(name: str, images: int) -> None:
        answers[name] = solvers[name](images)

    for name in solvers:
        try:
            seconds = 0.0 if name == NATIVE else time_once(partial(solve, name, 1))
        except Exception as error:  # a solver that does not converge
            failures[name] = describe_error(error)
            continue
        if seconds * batch > LONGEST_BATCH:
            scaled[name] = Timing(seconds * batch, 1)
        else:
            competitors[name] = partial(solve, name, batch)
    comparison = compare(competitors, NATIVE)
    comparison = Comparison(comparison.timings | scaled, comparison.failures | failures)
    exact = answers.get(DENSE, [])
    accuracy = {name: _measure_accuracy(bases, exact, laplacians) for name, bases in answers.items()}
    gap = _smallest_gap(exact, laplacians)
    return EigenvectorCell(laplacians[0].shape[0], batch, comparison, list(scaled), accuracy, gap, graph_seconds)


def _measure_accuracy(bases: list[np.ndarray], exact: list[np.ndarray], laplacians: list[Sparse]) -> Accuracy:
    pairs = list(zip(bases, laplacians, strict=False))
    residual = max(peers.largest_residual(matrix, basis[:, : WANTED + 1]) for basis, matrix in pairs)
    guard_residual = max(peers.largest_residual(matrix, basis[:, WANTED + 1 :]) for basis, matrix in pairs)
    if len(exact) < len(bases) or len(bases[0]) > COMPARED_UP_TO:
        return Accuracy(residual, guard_residual, None)
    angles = [subspace_angles(e[:, : WANTED + 1], b[:, : WANTED + 1])[0] for e, b in zip(exact, bases, strict=False)]
    return Accuracy(residual, guard_residual, float(max(angles)))


def _smallest_gap(exact: list[np.ndarray], laplacians: list[Sparse]) -> float | None:
    gaps = []
    for basis, matrix in zip(exact, laplacians, strict=False):
        values = (basis * (matrix @ basis)).sum(0)
        gaps.append(float(values[WANTED + 1] - values[WANTED]))
    return min(gaps, default=None)
