"""What the feature cache saves: filling it, and training from it against training through the stem.

    python benchmarks/cache_speed.py aid_128.npz --output results/cache_speed.json

Some of the images, four augmented views of each, batches of 128. Runs from the cache and through the stem take turns,
so that a noisy machine hits both alike, and the best epoch of each counts. How busy the processors are is Linux's count
for the whole machine while the stem computes: let nothing else run.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from spectral_vmamba.data.sources import training_data
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.training import Silent, fit, recipe

VIEWS, VALIDATION = 4, 128


class Watch(Silent):
    """How long the cache takes to fill, and how busy the machine is meanwhile."""

    def __init__(self):
        self.seconds, self.busy = 0.0, 0.0

    def track(self, items: Iterable[Any], description: str, total: int) -> Iterator[Any]:
        start, before = time.perf_counter(), _jiffies()
        yield from items
        if description.startswith("features"):
            idle, spent = (after - earlier for after, earlier in zip(_jiffies(), before, strict=True))
            self.seconds, self.busy = time.perf_counter() - start, 1 - idle / spent


def _jiffies() -> tuple[int, int]:
    """Idle ones, and all."""
    counts = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return counts[3] + counts[4], sum(counts)


def some_of(data: str, size: int, count: int, folder: Path) -> Path:
    """A pack of pixels: opening images is no part of what is compared."""
    generator, arrays = np.random.default_rng(0), {}
    parts = zip(("train", "test"), training_data(data), (count, VALIDATION), strict=True)
    for part, images, wanted in parts:
        chosen = generator.choice(len(images), min(wanted, len(images)), replace=False)
        opened = [images.opener(int(i)).convert("RGB").resize((size, size)) for i in chosen]
        arrays |= {f"x_{part}": np.stack([np.asarray(each) for each in opened]), f"y_{part}": images.labels[chosen]}
    np.savez(folder / "some.npz", **arrays)
    return folder / "some.npz"


def epochs_of(pack: Path, folder: Path, cached: bool, epochs: int, watch: Watch, **options: Any) -> list[float]:
    """ImageDataset per second."""
    run = tempfile.mkdtemp(dir=folder)
    settings = {"views": VIEWS, "epochs": epochs, "min_steps": 0, "model_options": options}
    places = {"data": str(pack), "output": run, "cache_folder": str(folder / "cache")}
    config = recipe("lite", **settings, **places, cache=cached)
    return [round(report.images_per_second, 1) for report in fit(config, reporter=watch).history]


def measure(pack: Path, folder: Path, turns: int, **options: Any) -> dict[str, Any]:
    watch, cached, through = Watch(), [], []
    epochs_of(pack, folder, True, 1, watch, **options)
    filled = {"seconds": round(watch.seconds, 1), "share of all processors": round(watch.busy, 3)}
    for _ in range(turns):
        cached += epochs_of(pack, folder, True, 8, Watch(), **options)
        through += epochs_of(pack, folder, False, 1, Watch(), **options)
    return {
        "options": options,
        "filling": filled,
        "images per second": {"from the cache": cached, "through the stem": through},
        "ratio": {
            "best": round(max(cached) / max(through), 1),
            "median": round(float(np.median(cached) / np.median(through)), 1),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="images, as `spectral-vmamba train --data` takes them")
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--images", type=int, default=1280)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--turns", type=int, default=3, help="runs of each kind")
    parser.add_argument("--rotations", type=int, nargs="+", default=[4, 8], help="RFN angles of the stem")
    settings = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as name:
        pack = some_of(settings.data, settings.size, settings.images, Path(name))
        for rotations in settings.rotations:
            results.append(measure(pack, Path(name), settings.turns, rotations=rotations))
            print(json.dumps(results[-1], indent=1), flush=True)
    environment = measure_environment()
    about = {
        "command": " ".join(["python benchmarks/cache_speed.py", *(Path(word).name for word in sys.argv[1:])]),
        "date": time.strftime("%Y-%m-%d"),
        "machine": environment.machine,
        "threads": torch.get_num_threads(),
        "versions": {"spectral_vmamba": environment.version, "torch": torch.__version__},
    }
    settings.output.write_text(json.dumps({"about": about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
