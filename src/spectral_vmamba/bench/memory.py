"""Peak memory of a training step: our mixer against one that materializes the scan, our model against Swin."""

import subprocess
import sys
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.table import Table

from spectral_vmamba.bench.scan import our_backend
from spectral_vmamba.bench.scan_peers import available_peers
from spectral_vmamba.bench.settings import Settings, Track
from spectral_vmamba.bench.timing import as_times

OUR_MODEL, PEER_MODEL = "spectral_vmamba_tiny", "swin_tiny_patch4_window7_224"


@dataclass(frozen=True)
class MemoryGroup:
    """Peak growth in bytes of each subject."""

    title: str
    ours: str
    bytes: dict[str, int]
    failures: dict[str, str]


@dataclass(frozen=True)
class MemoryResult:
    groups: list[MemoryGroup]
    notices: list[str]


def measure_memory(settings: Settings, track: Track) -> MemoryResult:
    ours, notices = our_backend()
    peers, missing = available_peers()
    batch, side, width = (2, 7, 64) if settings.quick else (8, 14, 256)
    mixers = [f"mixer:{name}" for name in (ours, *peers)]
    models = [f"model:{name}" for name in (OUR_MODEL, PEER_MODEL)]
    if settings.quick:
        mixers, models = [mixers[0], mixers[-1]], []
        notices = [*notices, "--quick leaves the whole models' memory out"]
    found, failures = {}, {}
    for subject in track(mixers + models, "memory"):
        pixels_or_tokens = side if subject in mixers else 224
        sizes = {"batch": batch, "side": pixels_or_tokens, "width": width}
        done = _probe(subject, {**sizes, "threads": settings.threads, "seed": settings.seed})
        if done.returncode:
            failures[subject] = (done.stderr.strip() or f"ended with {done.returncode}").splitlines()[-1]
        else:
            found[subject] = int(done.stdout)
    mixer_title = f"S6 mixer, forward and backward: width {width} → {2 * width}, {side * side} tokens, batch {batch}"
    model_title = f"whole model, a step of plain SGD: 224 px, batch {batch}"
    groups = [_group(title, names, found, failures) for title, names in ((mixer_title, mixers), (model_title, models))]
    return MemoryResult([group for group in groups if group.bytes or group.failures], notices + missing)


def _probe(subject: str, options: dict[str, int]) -> subprocess.CompletedProcess:
    arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "spectral_vmamba.bench.memory_probe", subject, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def _group(title: str, subjects: list[str], found: dict[str, int], failures: dict[str, str]) -> MemoryGroup:
    def named(values: dict) -> dict:
        return {s.partition(":")[2]: values[s] for s in subjects if s in values}

    ours = subjects[0].partition(":")[2] if subjects else ""
    return MemoryGroup(title, ours, named(found), named(failures))


def _ratio(group: MemoryGroup, name: str) -> str:
    return as_times(group.bytes[name] / group.bytes[group.ours] if group.ours in group.bytes else None)


def show_memory(result: MemoryResult) -> list[RenderableType]:
    shown: list[RenderableType] = []
    for group in result.groups:
        table = Table("", "peak growth [MB]", "× ours")
        for name in group.bytes:
            table.add_row(name, f"{group.bytes[name] / 1e6:.0f}", _ratio(group, name))
        shown += [group.title, table, *(f"{name}: {why}" for name, why in group.failures.items())]
    return shown


def plot_memory(result: MemoryResult) -> Figure:
    figure = Figure(figsize=(9, 2.6 * len(result.groups) + 0.4), layout="constrained")
    for axis, group in zip(figure.subplots(len(result.groups), squeeze=False)[:, 0], result.groups, strict=True):
        _draw(axis, group)
    figure.suptitle("Peak memory of one training step")
    return figure


def _draw(axis: Axes, group: MemoryGroup) -> None:
    names = list(group.bytes)[::-1]
    colors = ["tab:green" if name == group.ours else "tab:gray" for name in names]
    bars = axis.barh(names, [group.bytes[name] / 1e6 for name in names], color=colors)
    axis.bar_label(bars, [_ratio(group, name) for name in names], padding=4)
    axis.margins(x=0.12)
    axis.set_xlabel("growth of resident memory [MB]")
    axis.set_title(group.title, fontsize=10)
