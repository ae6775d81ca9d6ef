"""Compare speed and memory with other implementations and with what the machine can do: `python -m benchmarks`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from benchmarks.suite.runner import SECTIONS, run_sections
from benchmarks.suite.settings import Settings

_EPILOG = """sections:
  scan          the selective scan against a torch loop, mambapy and the slow path of transformers, over a grid of sizes
  memory        peak memory of a training step
  eigenvectors  eigenvectors of the graphs of photographs, against scipy and torch
  model         where the time of a forward goes; images per second against Swin-T
  models        images per second of every model of the paper's comparison, against Swin-T
  limits        the scan against the memory bandwidth, the model against its matrix products alone
  segmenters    time and peak memory of segmentation networks against the pixels of an image

Close other programs first. The suite prints ratios, and writes bench.json with every time and one plot per section.

example: python -m benchmarks --only scan --quick"""


def parse_settings(arguments: Sequence[str] | None = None) -> tuple[list[str], Settings, Path]:
    """Return the sections to run, the settings and the output folder."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("benchmarks/results"), help="folder for numbers and plots"
    )
    parser.add_argument(
        "--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS), help="sections to run; defaults to all"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, one minute: checks that everything runs, measures nothing"
    )
    parser.add_argument("--threads", type=int, default=0, help="torch threads; 0 (the default) is torch's own choice")
    parser.add_argument("--seed", type=int, default=0, help="seed of inputs, crops and weights")
    parser.add_argument(
        "--compile", action="store_true", help="also time torch.compile of the portable scan at one size: four minutes"
    )
    options = parser.parse_args(arguments)
    if options.threads < 0:
        parser.error(f"--threads: expected a number of threads, or 0 for torch's own choice; got {options.threads}")
    settings = Settings(options.quick, options.threads or torch.get_num_threads(), options.seed, options.compile)
    return options.only, settings, options.output


def main(arguments: Sequence[str] | None = None) -> None:
    names, settings, folder = parse_settings(arguments)
    run_sections(names, settings, folder, Console())


if __name__ == "__main__":
    main()
