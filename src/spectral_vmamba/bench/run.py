"""Runs the chosen sections one after the other: measure, print, draw, write."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from spectral_vmamba.bench.eigenvectors import measure_eigenvectors
from spectral_vmamba.bench.eigenvectors_report import plot_eigenvectors, show_eigenvectors
from spectral_vmamba.bench.limits import measure_limits
from spectral_vmamba.bench.limits_report import plot_limits, show_limits
from spectral_vmamba.bench.memory import measure_memory, plot_memory, show_memory
from spectral_vmamba.bench.model import measure_model
from spectral_vmamba.bench.model_report import plot_model, show_model
from spectral_vmamba.bench.models import measure_models, plot_models, show_models
from spectral_vmamba.bench.scan import measure_scan
from spectral_vmamba.bench.scan_report import plot_scan, show_scan
from spectral_vmamba.bench.settings import Settings, Track
from spectral_vmamba.metrics.environment import measure_environment


class Section(NamedTuple):
    measure: Callable[[Settings, Track], Any]
    show: Callable[[Any], list[RenderableType]]
    plot: Callable[[Any], Figure]


SECTIONS = {
    "scan": Section(measure_scan, show_scan, plot_scan),
    "memory": Section(measure_memory, show_memory, plot_memory),
    "eigenvectors": Section(measure_eigenvectors, show_eigenvectors, plot_eigenvectors),
    "model": Section(measure_model, show_model, plot_model),
    "models": Section(measure_models, show_models, plot_models),
    "limits": Section(measure_limits, show_limits, plot_limits),
}


def run_bench(names: Sequence[str], settings: Settings, folder: Path, console: Console) -> None:
    """Prints ratios; writes `bench.json` with every time, after every section, and a image of each section."""
    folder.mkdir(parents=True, exist_ok=True)
    with _threads(settings.threads):
        report = _facts(names, settings, folder)
        for name in names:
            console.rule(name)
            section = SECTIONS[name]
            with _progress(console) as track:
                result = section.measure(settings, track)
            for shown in (*result.notices, *section.show(result)):
                console.print(shown, highlight=False, markup=False)
            section.plot(result).savefig(folder / f"{name}.png", dpi=110)
            report["sections"][name] = asdict(result)
            text = json.dumps(_finite(report), indent=1, ensure_ascii=False)
            (folder / "bench.json").write_text(text + "\n", encoding="utf-8")
    console.print(f"wrote {folder / 'bench.json'} and a image of each section", highlight=False, soft_wrap=True)


def _facts(names: Sequence[str], settings: Settings, folder: Path) -> dict[str, Any]:
    environment = asdict(measure_environment())
    quick = " --quick" * settings.quick + " --compile" * settings.compile
    chosen = f"--only {' '.join(names)}{quick} --threads {settings.threads} --seed {settings.seed}"
    return {
        "command": f"spectral-vmamba bench {chosen} --output {folder}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": settings.seed,
        "threads": settings.threads,
        "quick": settings.quick,
        "vector_instructions": torch.backends.cpu.get_cpu_capability(),
        "environment": environment,
        "sections": {},
    }


def _finite(value: Any) -> Any:
    """JSON has no NaN or infinity, and only text as keys."""
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _progress(console: Console) -> Iterator[Track]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield lambda items, description: progress.track(items, description=description)
