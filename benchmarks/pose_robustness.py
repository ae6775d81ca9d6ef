"""Accuracy of trained networks on changed images, and agreement with their answers to the images as they are.

    python -m benchmarks.pose_robustness results/poses_aid/runs/* --output robustness_aid.json

Takes the folders of runs that `benchmarks.poses` writes. Each test image is changed at its own resolution, before any
frame: noise, JPEG, gamma, blur, shifts, zoom, and a turn by a random angle on the same canvas, bicubic. Seeds depend on
the image alone: all runs see the same pixels. The averaged weights of the last epoch answer.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from PIL import Image
from torch import Tensor

from benchmarks.perturbations import PERTURBATIONS, perturb_image
from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.file_changes import RotatedFile
from spectral_vmamba.inference import Predictor
from spectral_vmamba.inference.checkpoint import load_checkpoint
from spectral_vmamba.inference.evaluate import evaluation_images
from spectral_vmamba.inference.predictor import make_predictor
from spectral_vmamba.metrics.environment import measure_environment

UNCHANGED, RANDOM_TURN = "none", "random turn"
_SAMPLE_SEED, _ANGLES_SEED = 0, 1
_BATCH = 32

Change = Callable[[Image.Image, int], Image.Image]  # of an image, by its place among the test images


@dataclass(frozen=True)
class Robustness:
    """Shares of the images, 0 to 1."""

    accuracy: float
    agreement: float


def load_run(folder: Path) -> Predictor:
    """The averaged weights of the last epoch, or the raw ones if none were averaged."""
    checkpoint = load_checkpoint(folder / "last.safetensors")
    return make_predictor(checkpoint, "ema" if checkpoint.header.has_ema else "raw", "cpu")


def choose_images(predictors: Sequence[Predictor], data: str | None, count: int) -> ImageDataset:
    """A fixed random sample of the test images, which the runs must share."""
    datasets = [evaluation_images(predictor, data)[0] for predictor in predictors]
    for dataset in datasets[1:]:
        if list(dataset.names) != list(datasets[0].names) or dataset.classes != datasets[0].classes:
            raise ValueError("expected runs with the same test images; name the data with --data")
    chosen = np.random.default_rng(_SAMPLE_SEED).permutation(len(datasets[0]))[:count]
    return datasets[0].subset(np.sort(chosen))


def make_changes(count: int) -> dict[str, Change]:
    """All changes, by name; the first is none."""
    angles = np.random.default_rng(_ANGLES_SEED).uniform(0, 360, count)
    named: dict[str, Change] = {
        name: partial(_perturb_by_number, perturbation=perturbation) for name, perturbation in PERTURBATIONS.items()
    }
    turned: Change = lambda image, i: RotatedFile(float(angles[i]))(image)  # noqa: E731
    return {UNCHANGED: lambda image, i: image, **named, RANDOM_TURN: turned}


def _perturb_by_number(image: Image.Image, i: int, perturbation) -> Image.Image:
    return perturb_image(image, perturbation, seed=i)


def measure(predictors: dict[str, Predictor], dataset: ImageDataset) -> dict[str, dict[str, Robustness]]:
    """{run: {change: accuracy and agreement}}."""
    changes = make_changes(len(dataset))
    answers: dict[tuple[str, str], list[Tensor]] = {(run, name): [] for run in predictors for name in changes}
    for start in range(0, len(dataset), _BATCH):
        numbers = range(start, min(start + _BATCH, len(dataset)))
        images = [dataset.open(i) for i in numbers]
        for name, change in changes.items():
            changed = [change(image, i) for image, i in zip(images, numbers, strict=True)]
            for run, predictor in predictors.items():
                answers[run, name].append(_classify(predictor, changed))
    labels = torch.from_numpy(dataset.labels)
    classes = {key: torch.cat(parts) for key, parts in answers.items()}
    return {
        run: {name: _compare(classes[run, name], classes[run, UNCHANGED], labels) for name in changes}
        for run in predictors
    }


def _classify(predictor: Predictor, images: Sequence[Image.Image]) -> Int[Tensor, "b"]:
    transform = predictor.preprocessing.eval_transform()
    return predictor.probabilities(torch.stack([transform(image).pixels for image in images])).argmax(1)


def _compare(found: Int[Tensor, "n"], unchanged: Int[Tensor, "n"], labels: Int[Tensor, "n"]) -> Robustness:
    return Robustness(*(float((found == expected).double().mean()) for expected in (labels, unchanged)))


def format_markdown(results: dict[str, dict[str, Robustness]]) -> str:
    """A row for each change, a column for each run: accuracy and, in parentheses, agreement, in percent."""
    lines = [f"| change | {' | '.join(results)} |", "|---|" + "---|" * len(results)]
    for name in next(iter(results.values())):
        cells = [f"{100 * run[name].accuracy:.1f} ({100 * run[name].agreement:.1f})" for run in results.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, Robustness]]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of runs")
    parser.add_argument("--data", help="images to evaluate on; default: the test images of the runs")
    parser.add_argument("--images", type=int, default=500, help="most images to evaluate on")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    options = parser.parse_args(arguments)
    predictors = {folder.name: load_run(folder) for folder in options.runs}
    dataset = choose_images(list(predictors.values()), options.data, options.images)
    results = measure(predictors, dataset)
    print(format_markdown(results))
    if options.output:
        words = (Path(word).name for word in (sys.argv[1:] if arguments is None else arguments))
        report = {
            "command": " ".join(["python -m benchmarks.pose_robustness", *words]),
            "date": time.strftime("%Y-%m-%d"),
            "machine": asdict(measure_environment()),
            "images": len(dataset),
            "results": {run: {name: asdict(each) for name, each in rows.items()} for run, rows in results.items()},
        }
        options.output.write_text(json.dumps(report, indent=1) + "\n")
    return results


if __name__ == "__main__":
    main()
