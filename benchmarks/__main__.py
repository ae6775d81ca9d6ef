"""`make bench`: the operators against each other in one process, best of several runs, printed as ratios."""

import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

from spectral_vmamba.ops.selective_scan import selective_scan
from spectral_vmamba.ops.spectral import affinity, normalised_laplacian, smallest_eigenpairs

REPEATS = 5


def best_seconds(function: Callable[[], object]) -> float:
    function()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def scan_inputs(b: int, l: int, d: int, k: int) -> tuple[list[torch.Tensor], torch.Tensor]:  # noqa: E741
    shapes = [(b, l, d), (b, k, l, d), (k, d, 1), (b, k, l, 1), (b, k, l, 1), (k, d), (k, d)]
    tensors = [torch.randn(shape).requires_grad_() for shape in shapes]
    tensors[2] = (-torch.rand(k, d, 1)).requires_grad_()
    return tensors, torch.stack([torch.randperm(l) for _ in range(b * k)]).view(b, k, l)


def compare_scans(console: Console) -> None:
    table = Table(
        "tokens",
        "channels",
        "pass",
        "loop over tokens",
        "portable",
        "op (auto)",
        title="selective scan, 8 paths, batch 4",
    )
    for length, channels in ((49, 512), (196, 256), (196, 512)):
        tensors, orders = scan_inputs(4, length, channels, 8)
        for backward in (False, True):

            def run(backend: str, backward=backward, tensors=tensors, orders=orders):
                with torch.set_grad_enabled(backward):
                    y = selective_scan(*tensors, orders, backend=backend)
                    return torch.autograd.grad(y.sum(), tensors) if backward else y

            seconds = [best_seconds(lambda backend=b: run(backend)) for b in ("reference", "portable", "auto")]
            ratios = [f"{seconds[0] / s:.1f}×" for s in seconds]
            table.add_row(str(length), str(channels), "both" if backward else "forward", *ratios)
    console.print(table)


def compare_solvers(console: Console) -> None:
    table = Table("tokens", "dense", "arpack", "subspace", title="4 eigenvectors, batch 4, speed relative to dense")
    for tokens in (64, 196, 784):
        laplacian, trivial = normalised_laplacian(affinity(torch.randn(4, tokens, 8).cumsum(1).double(), 5))
        seconds = [
            best_seconds(lambda s=s: smallest_eigenpairs(laplacian, trivial, 6, s))  # noqa: B023
            for s in ("dense", "arpack", "subspace")
        ]
        table.add_row(str(tokens), *(f"{seconds[0] / s:.2f}×" for s in seconds))
    console.print(table)


def main() -> None:
    torch.manual_seed(0)
    console = Console()
    console.print(
        f"{torch.get_num_threads()} threads, torch {torch.__version__}, best of {REPEATS}, seed 0",
        highlight=False,
    )
    compare_scans(console)
    compare_solvers(console)


if __name__ == "__main__":
    main()
