"""Peak memory of a training step: our mixer against one that materializes the scan, our model against Swin-T."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.suite.scan import choose_backend
from benchmarks.suite.scan_peers import available_peers
from benchmarks.suite.settings import Settings
from benchmarks.suite.workloads import OUR_MODEL, PEER_MODEL
from spectral_vmamba.utils.progress import Progress

REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class MemoryGroup:
    """Peak growth in bytes of the subjects of one comparison; `ours` names the one that the others are compared to."""

    title: str
    ours: str
    bytes: dict[str, int]
    failures: dict[str, str]

    def ratio(self, name: str) -> float | None:
        return self.bytes[name] / self.bytes[self.ours] if self.ours in self.bytes else None


@dataclass(frozen=True)
class MemoryResult:
    groups: list[MemoryGroup]
    notices: list[str]


def measure_memory(settings: Settings, progress: Progress) -> MemoryResult:
    ours, notices = choose_backend()
    peers, missing = available_peers()
    batch, side, width = (2, 7, 64) if settings.quick else (8, 14, 256)
    mixers = [f"mixer:{name}" for name in (ours, *peers)]
    models = [f"model:{name}" for name in (OUR_MODEL, PEER_MODEL)]
    if settings.quick:
        mixers, models = [mixers[0], mixers[-1]], []
        notices = [*notices, "--quick leaves out the memory of whole models"]
    growth, failures = {}, {}
    for subject in progress(mixers + models, "memory", len(mixers + models)):
        options = {"batch": batch, "side": side if subject in mixers else 224, "width": width}
        probe = run_probe(subject, {**options, "threads": settings.threads, "seed": settings.seed})
        if probe.returncode:
            failures[subject] = (probe.stderr.strip() or f"exit code {probe.returncode}").splitlines()[-1]
        else:
            growth[subject] = int(probe.stdout)
    mixer_title = f"S6 mixer, forward and backward: width {width} → {2 * width}, {side * side} tokens, batch {batch}"
    model_title = f"whole model, one step of plain SGD: 224 px, batch {batch}"
    groups = [_group(mixer_title, mixers, growth, failures), _group(model_title, models, growth, failures)]
    return MemoryResult([group for group in groups if group.bytes or group.failures], notices + missing)


def run_probe(subject: str, options: dict[str, int]) -> subprocess.CompletedProcess:
    """Measure in a fresh process: memory that this one used before would hide a peak."""
    arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "benchmarks.suite.memory_probe", subject, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY)


def _group(title: str, subjects: list[str], growth: dict[str, int], failures: dict[str, str]) -> MemoryGroup:
    names = {subject: subject.partition(":")[2] for subject in subjects}

    def select(values: dict) -> dict:
        return {name: values[subject] for subject, name in names.items() if subject in values}

    return MemoryGroup(title, next(iter(names.values()), ""), select(growth), select(failures))
