"""Accuracy and agreement at every angle, for each frame and number of turns.

    OMP_NUM_THREADS=1 python -m benchmarks.poses aid_128.npz --output results/poses_aid --seeds 0 1 2

Trains `spectral_vmamba_lite`, or the model of --model, on upright images: by the recipe of each row, with as many
epochs. The test images are rotated in two ways:

* pixels: by every multiple of --step degrees, bilinear at the size of the network, black corners. The agreement is the
  share of images with the prediction that they have upright.
* files: every image once, by a random angle on an expanded canvas, bicubic at its own resolution, saved as JPEG of
  quality 90, with the angles of a fixed seed.

The averaged weights of the last epoch are evaluated: no choice depends on the test images. Finished rows stay in the
output folder; run the same command again to resume. Writes results.json and results.md.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from benchmarks.results_files import read_results, write_results
from benchmarks.transfer import PLAIN
from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.file_changes import RotatedFile, change_files
from spectral_vmamba.data.loader import eval_batches
from spectral_vmamba.data.subsets import write_subset
from spectral_vmamba.inference import Predictor, evaluate, load
from spectral_vmamba.inference.evaluate import evaluation_images
from spectral_vmamba.metrics.rotation import Sweep
from spectral_vmamba.training import TerminalReporter, TrainConfig, fit, recipe

_JPEG_QUALITY = 90


@dataclass(frozen=True)
class Row:
    """A frame, a number of turns, how the training images are rotated, in degrees to each side, and the weight of the
    loss that ties two views."""

    frame: str
    turns: int
    rotation: float
    views: int = 4  # of a cached stem
    consistency: float = 0.0

    @property
    def name(self) -> str:
        rotated = f", rotated by {self.rotation:g}°" if self.rotation else ""
        return f"{self.frame}, {self.turns}{rotated}{', two views tied' if self.consistency else ''}"


ROWS = [
    Row("quarter", 4, 0.0, views=1),
    Row("moment", 4, 0.0, views=1),
    Row("moment", 4, 180.0),
    Row("moment", 4, 180.0, consistency=1.0),
    Row("moment", 1, 180.0),
    Row("quarter", 4, 45.0),
    Row("none", 1, 180.0),  # the usual way
    Row("none", 1, 0.0, views=1),  # upright only
    Row("upright", 1, 0.0, views=1),
    Row("upright", 1, 45.0),
]


@dataclass(frozen=True)
class Result:
    """Accuracies and agreements, 0 to 1; `worst` and `least_agreement` are over all angles."""

    row: str
    seed: int
    upright: float
    mean: float
    worst: float
    worst_angle: float
    least_agreement: float
    mean_agreement: float
    files: float
    files_agreement: float
    seconds: float


def make_config(options: argparse.Namespace, row: Row, seed: int) -> TrainConfig:
    config = recipe(
        options.recipe,
        data=options.data,
        val_data=options.val_data,
        frame=row.frame,
        turns=row.turns,
        output=str(Path(options.output) / "runs" / f"{row.name.replace(', ', '-').replace(' ', '_')}-{seed}"),
        seed=seed,
        consistency=row.consistency,
        workers=options.workers,
        **json.loads(options.settings),
    )
    augment = replace(config.augment, **{**PLAIN, **json.loads(options.augment), "rotation": row.rotation})
    config = replace(config, augment=augment, cache_folder=options.cache if config.cache else None)
    return replace(config, views=min(row.views, options.views)) if config.cache else config


def measure_files(predictor: Predictor, dataset: ImageDataset, seed: int) -> tuple[float, float]:
    """Accuracy on files that are rotated by random angles, and agreement with the files as they are."""
    angles = np.random.default_rng(seed).uniform(0, 360, len(dataset))
    upright = torch.cat(list(_predictions(predictor, dataset)))
    rotated = torch.empty_like(upright)
    for i, angle in enumerate(angles):
        change = RotatedFile(float(angle), expand=True, jpeg_quality=_JPEG_QUALITY)
        (rotated[i],) = next(_predictions(predictor, change_files(dataset.subset(np.array([i])), change)))
    return float((rotated == torch.from_numpy(dataset.labels)).float().mean()), float(
        (rotated == upright).float().mean()
    )


def _predictions(predictor: Predictor, dataset: ImageDataset) -> Iterator[torch.Tensor]:
    for batch in eval_batches(dataset, predictor.preprocessing.eval_transform(), 64, 0):
        yield predictor.probabilities(batch.inputs).argmax(1).cpu()


def run_row(options: argparse.Namespace, row: Row, seed: int, console: Console) -> Result:
    start, config = time.monotonic(), make_config(options, row, seed)
    fit(config, resume=True, reporter=TerminalReporter(console))
    predictor = load(Path(config.output) / "last.safetensors", "ema" if config.ema else "raw")
    sweep = evaluate(
        predictor, rotations=options.step, workers=options.workers, cache_folder=config.cache_folder
    ).sweeps[0]
    dataset, _ = evaluation_images(predictor, None)
    if options.files < len(dataset):
        dataset = dataset.subset(np.sort(np.random.default_rng(0).choice(len(dataset), options.files, replace=False)))
    files = measure_files(predictor, dataset, 0) if options.files else (float("nan"), float("nan"))
    return make_result(row, seed, sweep, files, time.monotonic() - start)


def make_result(row: Row, seed: int, sweep: Sweep, files: tuple[float, float], seconds: float) -> Result:
    agreements = [point.agreement for point in sweep.points if point.angle]
    return Result(
        row.name,
        seed,
        sweep.upright.accuracy,
        sweep.mean_accuracy,
        sweep.worst.accuracy,
        sweep.worst.angle,
        min(agreements),
        sum(agreements) / len(agreements),
        *files,
        round(seconds, 1),
    )


def format_markdown(results: Sequence[Result]) -> str:
    """Return a table with one row per frame and turns; the seeds share a cell."""
    lines = [
        "| frame, turns | upright | mean | worst angle | agreement: mean, least | files | agreement of files |",
        "|---|---|---|---|---|---|---|",
    ]
    rows: dict[str, list[Result]] = {}
    for result in results:
        rows.setdefault(result.row, []).append(result)
    for name, seeds in rows.items():
        cells = [
            ", ".join(f"{100 * getattr(result, field):.1f}" for result in seeds)
            for field in ("upright", "mean", "worst", "mean_agreement", "least_agreement", "files", "files_agreement")
        ]
        upright, mean, worst, mean_agreement, least, files, files_agreement = cells
        lines.append(
            f"| {name} | {upright} | {mean} | {worst} | {mean_agreement}; {least} | {files} | {files_agreement} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> list[Result]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="images, as in `spectral-vmamba train --data`")
    parser.add_argument("--val-data", help="test images, if the data does not contain them")
    parser.add_argument("--train-images", type=int, help="use this many random training images; all by default")
    parser.add_argument("--test-images", type=int, help="use this many random test images; all by default")
    parser.add_argument("--output", default="benchmarks/results/poses", help="folder for runs and results")
    parser.add_argument("--cache", default="benchmarks/results/cache", help="folder of the feature cache")
    parser.add_argument("--recipe", default="lite")
    parser.add_argument("--settings", default="{}", help="other settings of all rows, as JSON: model, epochs, …")
    parser.add_argument("--augment", default="{}", help="changes of all training images, as JSON; none by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--step", type=float, default=15.0, help="degrees between the angles of the evaluation")
    parser.add_argument("--files", type=int, default=1_000_000, help="images of the protocol of files; 0 for none")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--views", type=int, default=4, help="most views of an image, where the stem is cached")
    parser.add_argument("--rows", nargs="+", default=[row.name for row in ROWS], help="names of rows")
    options = parser.parse_args(arguments)
    console, path = Console(), Path(options.output) / "results.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the folders of this machine.
    named = {name: value for name, value in vars(options).items() if name not in ("output", "cache")}
    named.update({name: Path(named[name]).name for name in ("data", "val_data") if named[name]})
    if options.train_images or options.test_images:
        subset = write_subset(path.parent, options.data, options.val_data, options.train_images, options.test_images)
        options.data, options.val_data = str(subset), None
    results = read_results(path, named, Result)
    finished = {(result.row, result.seed) for result in results}
    for row in (row for name in options.rows for row in ROWS if row.name == name):
        for seed in (seed for seed in options.seeds if (row.name, seed) not in finished):
            console.rule(f"{row.name}, seed {seed}")
            results.append(run_row(options, row, seed, console))
            write_results(path, named, results, format_markdown(results))
            console.print(format_markdown(results[-1:]), highlight=False, soft_wrap=True)
    return results


if __name__ == "__main__":
    main()
