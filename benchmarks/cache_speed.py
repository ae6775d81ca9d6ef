"""Measure the feature cache: the time to fill it, and training from it against training through the stem.

    python benchmarks/cache_speed.py aid_128.npz --output cache_speed.json

Trains spectral_vmamba_lite on a sample of the images, with four augmented views per image and batches of 128. Runs from
the cache and runs through the stem take turns, so that a disturbance of the machine hits both; the best epoch of each
counts. The processor load while the cache is filled is Linux's count for the whole machine: close other programs.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.training import SilentReporter, fit, recipe

VIEWS, VALIDATION = 4, 128


class FillTimer(SilentReporter):
    """Measures how long filling the cache takes, and the processor load meanwhile."""

    def __init__(self):
        self.seconds, self.load = 0.0, 0.0
        self._start: tuple[float, int, int] | None = None

    def track(self, items: Iterable[Any], description: str, total: int) -> Iterable[Any]:
        if description.startswith("features") and self._start is None:
            self._start = (time.perf_counter(), *_read_jiffies())
        if description == "visiting orders" and self._start is not None:  # the next step after filling
            start, idle_before, all_before = self._start
            idle, total_jiffies = _read_jiffies()
            self.seconds = time.perf_counter() - start
            self.load = 1 - (idle - idle_before) / max(total_jiffies - all_before, 1)
        return items


def _read_jiffies() -> tuple[int, int]:
    """Return the idle and all time units of all processors."""
    counts = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return counts[3] + counts[4], sum(counts)


def write_sample(data: str, size: int, count: int, folder: Path) -> Path:
    """Write a random sample of the images as a pack of pixels: decoding files is not part of the comparison."""
    generator, arrays = np.random.default_rng(0), {}
    parts = zip(("train", "test"), DataSplit(data, None, 0.2, 0).read()[:2], (count, VALIDATION), strict=True)
    for part, images, wanted in parts:
        index = generator.choice(len(images), min(wanted, len(images)), replace=False)
        pixels = [np.asarray(images.open(int(i)).resize((size, size))) for i in index]
        arrays |= {f"x_{part}": np.stack(pixels), f"y_{part}": images.labels[index]}
    np.savez(folder / "sample.npz", **arrays)
    return folder / "sample.npz"


def measure_epochs(
    pack: Path, folder: Path, cached: bool, epochs: int, reporter: SilentReporter, **model_options: Any
) -> list[float]:
    """Train and return the images per second of each epoch."""
    config = recipe(
        "lite",
        frame=None,
        data=str(pack),
        output=tempfile.mkdtemp(dir=folder),
        cache=cached,
        cache_folder=str(folder / "cache"),
        views=VIEWS,
        epochs=epochs,
        min_steps=0,
        model_options=model_options,
    )
    return [round(report.images_per_second, 1) for report in fit(config, reporter=reporter).history]


def measure(pack: Path, folder: Path, repeats: int, **model_options: Any) -> dict[str, Any]:
    """Fill the cache, then train `repeats` times from it and through the stem."""
    timer, cached, uncached = FillTimer(), [], []
    measure_epochs(pack, folder, True, 1, timer, **model_options)
    for _ in range(repeats):
        cached += measure_epochs(pack, folder, True, 8, SilentReporter(), **model_options)
        uncached += measure_epochs(pack, folder, False, 1, SilentReporter(), **model_options)
    return {
        "options": model_options,
        "filling": {"seconds": round(timer.seconds, 1), "share of all processors": round(timer.load, 3)},
        "images per second": {"from the cache": cached, "through the stem": uncached},
        "ratio": {
            "best": round(max(cached) / max(uncached), 1),
            "median": round(float(np.median(cached) / np.median(uncached)), 1),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="images, as in `spectral-vmamba train --data`")
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--images", type=int, default=1280, help="training images in the sample")
    parser.add_argument("--size", type=int, default=128, help="pixels per side")
    parser.add_argument("--repeats", type=int, default=3, help="runs from the cache and runs through the stem")
    parser.add_argument("--rfn-turns", type=int, nargs="+", default=[4, 8], help="RFN angles of the stem")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as name:
        pack = write_sample(options.data, options.size, options.images, Path(name))
        for turns in options.rfn_turns:
            results.append(measure(pack, Path(name), options.repeats, turns=turns))
            print(json.dumps(results[-1], indent=1), flush=True)
    environment = measure_environment()
    about = {
        "command": " ".join(["python benchmarks/cache_speed.py", *(Path(word).name for word in sys.argv[1:])]),
        "date": time.strftime("%Y-%m-%d"),
        "machine": environment.machine,
        "threads": torch.get_num_threads(),
        "versions": {"spectral_vmamba": environment.version, "torch": torch.__version__},
    }
    options.output.write_text(json.dumps({"about": about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
