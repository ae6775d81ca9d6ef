"""Run the sections one after the other: measure, print, plot, write."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from rich.console import Console, RenderableType
from torch.utils.benchmark import set_torch_threads

from benchmarks.suite.eigenvectors import measure_eigenvectors
from benchmarks.suite.eigenvectors_report import format_eigenvectors, plot_eigenvectors
from benchmarks.suite.limits import measure_limits
from benchmarks.suite.limits_report import format_limits, plot_limits
from benchmarks.suite.memory import measure_memory
from benchmarks.suite.memory_report import format_memory, plot_memory
from benchmarks.suite.model import measure_model
from benchmarks.suite.model_report import format_model, plot_model
from benchmarks.suite.models import measure_models
from benchmarks.suite.models_report import format_models, plot_models
from benchmarks.suite.scan import measure_scan
from benchmarks.suite.scan_report import format_scan, plot_scan
from benchmarks.suite.segmenters import measure_segmenters
from benchmarks.suite.segmenters_report import format_segmenters, plot_segmenters
from benchmarks.suite.settings import Settings
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.utils.progress import Progress, progress_bars


class Section(NamedTuple):
    """`measure` returns a dataclass with `notices`, lines about what could not be measured."""

    measure: Callable[[Settings, Progress], Any]
    format: Callable[[Any], list[RenderableType]]
    plot: Callable[[Any], Figure]


SECTIONS = {
    "scan": Section(measure_scan, format_scan, plot_scan),
    "memory": Section(measure_memory, format_memory, plot_memory),
    "eigenvectors": Section(measure_eigenvectors, format_eigenvectors, plot_eigenvectors),
    "model": Section(measure_model, format_model, plot_model),
    "models": Section(measure_models, format_models, plot_models),
    "limits": Section(measure_limits, format_limits, plot_limits),
    "segmenters": Section(measure_segmenters, format_segmenters, plot_segmenters),
}


def run_sections(names: Sequence[str], settings: Settings, folder: Path, console: Console) -> None:
    """Print ratios; write a plot of each section, and `bench.json` with every time (again after each section)."""
    folder.mkdir(parents=True, exist_ok=True)
    with set_torch_threads(settings.threads):
        report = _describe_run(names, settings, folder)
        for name in names:
            console.rule(name)
            section = SECTIONS[name]
            with progress_bars(console) as progress:
                result = section.measure(settings, progress)
            for line in (*result.notices, *section.format(result)):
                console.print(line, highlight=False, markup=False)
            section.plot(result).savefig(folder / f"{name}.png", dpi=110)
            report["sections"][name] = asdict(result)
            text = json.dumps(_to_json(report), indent=1, ensure_ascii=False)
            (folder / "bench.json").write_text(text + "\n", encoding="utf-8")
    console.print(f"wrote {folder / 'bench.json'} and one plot per section", highlight=False, soft_wrap=True)


def _describe_run(names: Sequence[str], settings: Settings, folder: Path) -> dict[str, Any]:
    flags = " --quick" * settings.quick + " --compile" * settings.compile
    options = f"--only {' '.join(names)}{flags} --threads {settings.threads} --seed {settings.seed}"
    return {
        "command": f"python -m benchmarks {options} --output {folder}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": settings.seed,
        "threads": settings.threads,
        "quick": settings.quick,
        "vector_instructions": torch.backends.cpu.get_cpu_capability(),
        "environment": asdict(measure_environment()),
        "sections": {},
    }


def _to_json(value: Any) -> Any:
    """Make keys strings, and NaN and infinity null: JSON has neither other keys nor these numbers."""
    if isinstance(value, dict):
        return {str(key): _to_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
