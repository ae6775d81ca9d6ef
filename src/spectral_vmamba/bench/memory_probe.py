"""Peak memory of one training step, in a process of its own: `python -m spectral_vmamba.bench.memory_probe …`.

Prints the growth of the resident memory, in bytes, from after model, input and a tiny warm-up to the step's peak.
The peak is VmHWM, which belongs to this program alone: `ru_maxrss` starts at what the parent process held.
"""

import argparse
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from spectral_vmamba.bench.scan import our_backend
from spectral_vmamba.bench.scan_peers import available_peers
from spectral_vmamba.layers import S6Mixer
from spectral_vmamba.layers import s6 as s6_module
from spectral_vmamba.models import create_model
from spectral_vmamba.ops.grid import Grid
from spectral_vmamba.ops.traversal import random_traversal

EIGENVECTORS = 4
_STATUS = Path("/proc/self/status")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject", help="mixer:SCAN, or model:NAME")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--side", type=int, default=14, help="tokens, or pixels of a model's input, on a side")
    parser.add_argument("--width", type=int, default=256, help="of the mixer")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    kind, _, name = options.subject.partition(":")
    if kind == "mixer":
        step = _mixer_step(name, options.batch, options.side, options.width)
    else:
        step = _model_step(name, options.batch, options.side)
    print(growth_of(step))


def growth_of(step: Callable[[], object]) -> int:
    _forget_peak()
    before = _resident_bytes()
    step()
    return _peak_bytes() - before


def _mixer_step(scan_name: str, batch: int, side: int, width: int) -> Callable[[], None]:
    """forward and backward of the mixer, all its gradients and the input's, with the scan replaced by another."""
    calls = _use_scan(scan_name)
    mixer = S6Mixer(width, 2 * EIGENVECTORS, backend=our_backend()[0])  # pyright: ignore[reportArgumentType]

    def step_on(batch: int, side: int) -> Callable[[], None]:
        traversal = random_traversal(Grid(side, side), batch, EIGENVECTORS, 0, torch.device("cpu"))
        x = torch.randn(batch, side * side, width, requires_grad=True)
        return lambda: mixer(x, traversal).sum().backward()

    step_on(1, 2)()
    if calls is not None and not calls:
        raise RuntimeError(f"the mixer did not call the scan that {scan_name!r} was to replace")
    _drop_gradients(mixer)
    return step_on(batch, side)


def _use_scan(name: str) -> list | None:
    """Make mixers call a peer; the list fills with its calls. None if the scan is ours, and nothing is replaced."""
    if name == our_backend()[0]:
        return None
    peer, calls = available_peers()[0][name], []

    def replacement(x, delta, A, B, C, D, delta_bias, orders, *backend, **options):
        calls.append(name)
        return peer(x, delta, A, B, C, D, delta_bias, orders)

    s6_module.selective_scan = replacement
    return calls


def _model_step(name: str, batch: int, side: int) -> Callable[[], None]:
    """forward, backward and a step of plain SGD, which keeps no state."""
    options = {"stem_weights": None} if name.startswith("spectral_vmamba_tiny") else {}
    model = create_model(name, num_classes=100, **options).train()
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-6)
    images, labels = torch.randn(batch, 3, side, side), torch.zeros(batch, dtype=torch.long)

    def step() -> None:
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    with torch.no_grad():
        model(images[:1])
    return step


def _drop_gradients(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.grad = None


def _forget_peak() -> None:
    """Linux can set the peak back to what is resident; where not, an import's peak may hide that of a small step."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        print("the peak could not be reset; small growths are understated", file=sys.stderr)


def _resident_bytes() -> int:
    return _status("VmRSS") if _STATUS.exists() else _peak_bytes()


def _peak_bytes() -> int:
    if _STATUS.exists():
        return _status("VmHWM")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _status(key: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
