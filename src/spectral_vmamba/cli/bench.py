"""Time this package against other ways to do the same, and say how far it is from what the machine can do."""

from pathlib import Path

import torch
from jsonargparse import ArgumentParser, Namespace
from rich.console import Console

from spectral_vmamba.bench import SECTIONS, Settings, run_bench

_DESCRIPTION = f"""{__doc__} Prints ratios; writes bench.json with every time, and a image of each section.
Sections: scan (the selective scan against a torch loop, mambapy and the slow path of transformers, over a grid of
sizes), memory (peak of a training step), eigenvectors (of photographs' graphs, against scipy and torch), model (where
the time goes, images per second against Swin-T), models (images per second of every model of the paper's
comparison), limits (the memory's bandwidth, the matrix products alone).
Close other programs first. Example: spectral-vmamba bench --only scan --quick"""


def parser() -> ArgumentParser:
    parser = ArgumentParser(description=_DESCRIPTION)
    parser.add_argument("-o", "--output", type=str, default="benchmarks/results", help="folder for numbers and images")
    parser.add_argument(
        "--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS), help="sections to run; all unless given"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, half a minute: shows that it runs")
    parser.add_argument("--threads", type=int, default=0, help="threads of torch; 0 for as many as torch takes")
    parser.add_argument("--seed", type=int, default=0, help="of inputs, crops and weights")
    parser.add_argument(
        "--compile", action="store_true", help="also torch.compile our portable scan, at one size: takes four minutes"
    )
    return parser


def run(config: Namespace) -> int:
    if config.threads < 0:
        raise ValueError(f"expected a number of threads, or 0 for torch's own choice; got {config.threads}")
    settings = Settings(config.quick, config.threads or torch.get_num_threads(), config.seed, config.compile)
    run_bench(config.only, settings, Path(config.output), Console())
    return 0
