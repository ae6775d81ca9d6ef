"""How many images per class are enough: `spectral_vmamba_lite` against logistic regression on the whole pretrained
EfficientNet-Lite0, for growing training sets.

    python benchmarks/images_per_class.py aid_128.npz --counts 5 10 20 50 100 --output results/aid_counts

Every training set is a random choice of `count` images of each class. The test images are those of the dataset, or the
first `--test-images` of a random permutation of them. Both classifiers are measured on upright images and at every
`--step` degrees. The averaged weights of the last epoch are evaluated, so no choice depends on the test images.
Finished runs stay in the output folder; run the same command again to resume. Writes results.json and results.md.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.lite0_regression import measure_regression
from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.sources import DataSplit
from spectral_vmamba.inference import evaluate, load
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.metrics.rotation import Sweep, sweep_angles
from spectral_vmamba.training import TerminalReporter, fit, recipe

LITE, REGRESSION = "spectral_vmamba_lite", "regression on Lite0"


@dataclass(frozen=True)
class Result:
    """Accuracies (0 to 1); `mean` and `worst` are over all angles, and so is `agreement` with the upright prediction."""

    classifier: str
    count: int
    seed: int
    upright: float
    mean: float
    worst: float
    agreement: float
    seconds: float


def choose_images(dataset: ImageDataset, count: int, seed: int) -> np.ndarray:
    """Return the indices of `count` random images of each class (all of a smaller class)."""
    generator = np.random.default_rng(seed)
    chosen = [generator.permutation(np.flatnonzero(dataset.labels == label))[:count] for label in range(len(dataset.classes))]
    return np.sort(np.concatenate(chosen))


def write_pack(path: Path, train: ImageDataset, test: ImageDataset) -> None:
    """Write a NumPy pack of image files with the two splits."""
    contents = [dataset.storage.content(i) for dataset in (train, test) for i in range(len(dataset))]
    np.savez(
        path,
        data=np.frombuffer(b"".join(contents), dtype=np.uint8),
        offset=np.cumsum([0, *map(len, contents)]),
        label=np.concatenate([train.labels, test.labels]),
        classes=np.array(train.classes),
        split=np.array(["train"] * len(train) + ["val"] * len(test)),
    )


def measure_lite(options: argparse.Namespace, data: Path, count: int, seed: int, console: Console) -> Result:
    start = time.monotonic()
    output = Path(options.output) / "runs" / f"{count}-{seed}"
    config = recipe("lite", data=str(data), output=str(output), cache_folder=options.cache, seed=seed)
    fit(config, resume=True, reporter=TerminalReporter(console))
    evaluation = evaluate(load(output / "last.safetensors", "ema"), rotations=options.step, cache=options.cache)
    return make_result(LITE, count, seed, evaluation.sweeps[0], time.monotonic() - start)


def make_result(classifier: str, count: int, seed: int, sweep: Sweep, seconds: float) -> Result:
    agreement = min(point.agreement for point in sweep.points)
    accuracies = sweep.upright.accuracy, sweep.mean_accuracy, sweep.worst.accuracy
    return Result(classifier, count, seed, *accuracies, agreement, round(seconds, 1))


def format_markdown(results: Sequence[Result]) -> str:
    lines = ["| images per class | classifier | upright | mean of all angles | worst angle |", "|---|---|---|---|---|"]
    groups: dict[tuple[int, str], list[Result]] = {}
    for result in sorted(results, key=lambda result: result.count):
        groups.setdefault((result.count, result.classifier), []).append(result)
    for (count, classifier), seeds in groups.items():
        columns = [[result.upright for result in seeds], [result.mean for result in seeds], [result.worst for result in seeds]]
        cells = [", ".join(f"{100 * value:.1f}" for value in column) + " %" for column in columns]
        lines.append(f"| {count} | {classifier} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="images, as in `spectral-vmamba train --data`")
    parser.add_argument("--output", default="benchmarks/results/images_per_class", help="folder for runs and results")
    parser.add_argument("--cache", default="benchmarks/results/cache", help="folder of the feature cache")
    parser.add_argument("--counts", type=int, nargs="+", default=[5, 10, 20, 50, 100], help="images per class")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--test-images", type=int, default=1000)
    parser.add_argument("--step", type=float, default=15.0, help="degrees between the angles of the evaluation")
    return parser.parse_args()


def main() -> None:
    options, console = parse_options(), Console()
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.json"
    results = [Result(**row) for row in json.loads(path.read_text())["results"]] if path.exists() else []
    finished = {(result.classifier, result.count, result.seed) for result in results}
    train, test = DataSplit(options.data, None, 0.2, 0).read()
    test = test.subset(np.sort(np.random.default_rng(0).permutation(len(test))[: options.test_images]))
    for seed, count in ((seed, count) for seed in options.seeds for count in options.counts):
        pack = folder / f"{Path(options.data).stem}-{count}-{seed}.npz"
        chosen = train.subset(choose_images(train, count, seed))
        if not pack.exists():
            write_pack(pack, chosen, test)
        for classifier in (REGRESSION, LITE):
            if (classifier, count, seed) in finished:
                continue
            console.rule(f"{classifier}, {count} images per class, seed {seed}")
            if classifier == LITE:
                results.append(measure_lite(options, pack, count, seed, console))
            else:
                start = time.monotonic()
                sweep = measure_regression(chosen, test, sweep_angles(options.step))
                results.append(make_result(REGRESSION, count, seed, sweep, time.monotonic() - start))
            machine = asdict(measure_environment())
            report = {"arguments": vars(options), "machine": machine, "results": [asdict(r) for r in results]}
            path.write_text(json.dumps(report, indent=1))
            (folder / "results.md").write_text(format_markdown(results))
            console.print(format_markdown(results[-1:]), highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
