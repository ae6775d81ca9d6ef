"""Measure which part of the network makes it invariant: RFN, STS, or the frame.

    python benchmarks/invariance_sources.py

Compares the logits of crops of photographs with those of the same crops rotated by 90° (exact) and by 45° (bilinear,
black corners), for the whole network and for networks without some of its parts. All but VMamba have the frozen
EfficientNet-Lite0 with ImageNet weights as their stem, on a grid of 14 × 14 tokens; the other weights are random, one
draw per seed, with scans that mix tokens strongly (`testing.activate_scan`). Differences are mean |Δlogit|, in standard
deviations of the upright logits. Writes invariance_sources.json and prints a table in Markdown.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import UInt8
from rich.console import Console
from torch import Tensor

from spectral_vmamba import create_model, rotation_gap
from spectral_vmamba.data import normalize, photograph_crops
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.testing import activate_scan
from spectral_vmamba.utils.progress import progress_bars

LITE = {"domain": "square", "frame": "none"}  # a square domain: every part then sees the corners
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "RFN + STS": ("spectral_vmamba_lite", LITE),
    "RFN + cross-scan": ("spectral_vmamba_lite", {**LITE, "traversal": "cross"}),
    "RFN + random orders": ("spectral_vmamba_lite", {**LITE, "traversal": "random"}),
    "STS without RFN": ("spectral_vmamba_lite", {**LITE, "turns": 1}),
    "cross-scan without RFN": ("spectral_vmamba_lite", {**LITE, "turns": 1, "traversal": "cross"}),
    "quarter frame, cross-scan without RFN": (
        "spectral_vmamba_lite",
        {**LITE, "turns": 1, "traversal": "cross", "frame": "quarter"},
    ),
    "quarter frame, RFN + STS": ("spectral_vmamba_lite", {**LITE, "frame": "quarter"}),
    "moment frame, RFN + STS": ("spectral_vmamba_lite", {**LITE, "frame": "moment"}),
    "VMamba": ("vmamba_tiny", {}),
    "quarter frame, VMamba": ("vmamba_tiny", {"frame": "quarter"}),
    "moment frame, VMamba": ("vmamba_tiny", {"frame": "moment"}),
}
ANGLES = (90.0, 45.0)


@dataclass(frozen=True)
class Source:
    """One network, with the change of its logits per seed, in standard deviations, at 90° and at 45°."""

    name: str
    model: str
    options: dict[str, Any]
    at_90: list[float]
    at_45: list[float]


def measure_source(name: str, pixels: UInt8[Tensor, "b 3 H W"], seeds: Sequence[int]) -> Source:
    """Build the network once per seed, and compare its logits at both angles with the upright ones."""
    model_name, options = VARIANTS[name]
    changes: dict[float, list[float]] = {angle: [] for angle in ANGLES}
    for seed in seeds:
        torch.manual_seed(seed)
        model = create_model(model_name, num_classes=10, **options)
        activate_scan(model)
        images = normalize(pixels, model.pretrained_cfg["mean"], model.pretrained_cfg["std"])
        for gap in rotation_gap(model, images, ANGLES):
            changes[gap.angle].append(gap.mean_difference)
    return Source(name, model_name, options, changes[90.0], changes[45.0])


def format_markdown(sources: Sequence[Source]) -> str:
    """Return one row per network: the mean over the seeds, and the range of the seeds."""
    lines = ["| network | at 90° | at 45° |", "|---|---|---|"]
    lines += [f"| {each.name} | {_format(each.at_90)} | {_format(each.at_45)} |" for each in sources]
    return "\n".join(lines)


def _format(values: Sequence[float]) -> str:
    mean = sum(values) / len(values)
    if mean == 0:
        return "0 (same bits)"
    spread = f" ({min(values):.2g} to {max(values):.2g})" if len(values) > 1 else ""
    return f"{mean:.2g}{spread}"


def parse_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="benchmarks/results", help="folder for invariance_sources.json")
    parser.add_argument("--images", type=int, default=24, help="number of crops of photographs")
    parser.add_argument("--size", type=int, default=224, help="pixels per side of a crop")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of the weights")
    parser.add_argument("--networks", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    arguments = sys.argv[1:] if arguments is None else arguments
    options, console = parse_options(arguments), Console()
    pixels = photograph_crops(options.images, options.size, seed=0)
    with progress_bars(console) as progress:
        sources = [
            measure_source(name, pixels, options.seeds)
            for name in progress(options.networks, "networks", len(options.networks))
        ]
    command = shlex.join(["python", "benchmarks/invariance_sources.py", *arguments])
    photographs = "the photographs in scikit-image and scikit-learn"
    report = {
        "command": command,
        "data": f"{options.images} crops of {options.size} px of {photographs}, seed 0",
        "seeds": options.seeds,
        "unit": "mean |Δlogit| in standard deviations of the upright logits",
        "machine": asdict(measure_environment()),
        "sources": [asdict(source) for source in sources],
    }
    path = Path(options.output) / "invariance_sources.json"
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    console.print(format_markdown(sources), highlight=False, soft_wrap=True, markup=False)
    console.print(f"wrote {path}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
