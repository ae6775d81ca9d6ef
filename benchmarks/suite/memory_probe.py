"""Peak memory of one training step, or of segmenting an image, in a process of its own.

    python -m benchmarks.suite.memory_probe SUBJECT

Prints the growth of the resident memory in bytes, from the state after creating model and input and a tiny warm-up to
the peak of the step.
"""

import argparse
from collections.abc import Callable

import torch
from torch import nn

from benchmarks.suite.scan import choose_backend
from benchmarks.suite.scan_peers import available_peers
from benchmarks.suite.workloads import seeded_model
from spectral_vmamba.layers import S6Mixer
from spectral_vmamba.layers import s6 as s6_module
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.selective_scan import ScanInputs
from spectral_vmamba.ops.traversal import random_traversal
from spectral_vmamba.utils.peak_memory import measure_growth

EIGENVECTORS = 4


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject", help="mixer:SCAN, model:NAME or segmenter:RECIPE")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--side", type=int, default=14, help="side of the input: tokens of a mixer, pixels of a model")
    parser.add_argument("--width", type=int, default=256, help="width of the mixer, window of the segmentation")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    kind, _, name = options.subject.partition(":")
    if kind == "mixer":
        step = mixer_step(name, options.batch, options.side, options.width)
    elif kind == "segmenter":
        step = segmenter_step(name, options.side, options.width, options.seed)
    else:
        step = model_step(name, options.batch, options.side, options.seed)
    print(measure_growth(step))


def mixer_step(scan_name: str, batch: int, side: int, width: int) -> Callable[[], None]:
    """Return forward and backward of a mixer that uses the scan `scan_name`; gradients of weights and input."""
    calls = _replace_scan(scan_name)
    mixer = S6Mixer(width, 2 * EIGENVECTORS, backend=choose_backend()[0])  # pyright: ignore[reportArgumentType]

    def make_step(batch: int, side: int) -> Callable[[], None]:
        traversal = random_traversal(Grid(side, side), batch, EIGENVECTORS, 0, torch.device("cpu"))
        x = torch.randn(batch, side * side, width, requires_grad=True)
        return lambda: mixer(x, traversal).sum().backward()

    make_step(1, 2)()
    if calls is not None and not calls:
        raise RuntimeError(f"the mixer did not call the scan {scan_name!r}")
    mixer.zero_grad(set_to_none=True)
    return make_step(batch, side)


def _replace_scan(name: str) -> list[str] | None:
    """Make mixers call a peer and return a list that records its calls; return None if the scan is ours."""
    if name == choose_backend()[0]:
        return None
    peer, calls = available_peers()[0][name], []

    def replacement(*arguments, **options):
        calls.append(name)
        return peer(ScanInputs(*arguments[: len(ScanInputs._fields)]))  # the backend follows

    s6_module.selective_scan = replacement
    return calls


def model_step(name: str, batch: int, side: int, seed: int) -> Callable[[], None]:
    """Return forward, backward and a step of plain SGD, which has no state."""
    model = seeded_model(name, seed).train()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-6)
    images, labels = torch.randn(batch, 3, side, side), torch.zeros(batch, dtype=torch.long)

    def step() -> None:
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    with torch.no_grad():
        model(images[:1])
    return step


def segmenter_step(recipe: str, side: int, window: int, seed: int) -> Callable[[], object]:
    """Return the segmentation of one image."""
    from benchmarks.suite.segmenters import photograph, seeded_segmenter

    segmenter, image = seeded_segmenter(recipe, window, seed), photograph(side, seed)
    segmenter.mask(image[:, :64, :64])
    return lambda: segmenter.mask(image)


if __name__ == "__main__":
    main()
