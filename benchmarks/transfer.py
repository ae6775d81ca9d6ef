"""Transfer learning on a data set: spectral_vmamba_lite against the same features without its ideas, turned.

    python benchmarks/transfer.py aid_128.npz --output results/aid --seeds 0 1 2

Everything learns from, and is measured on, what the frozen stem says, kept in a cache that all runs share. Two
protocols: `upright` (one plain view of every image, the paper's) and `turned` (eight views: flips, crops, colors,
turns). The averaged weights of the last epoch are measured: nothing is chosen by the images that are measured.
Finished runs are kept in the output folder, so that a second call goes on. Writes results.json and results.md.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from spectral_vmamba.data.sources import training_data
from spectral_vmamba.features import CachedDataset, augmented_views, frozen_tokenizer, open_cache, turned_views
from spectral_vmamba.inference import evaluate, load
from spectral_vmamba.inference.cached_evaluation import kept_views
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.metrics.rotation import FILLS, Sweep, gathered_sweep, sweep_angles
from spectral_vmamba.training import Bars, TrainConfig, fit, recipe

PLAIN = {
    "crop_scale": (1.0, 1.0),
    "crop_ratio": (1.0, 1.0),
    "hflip": 0.0,
    "vflip": 0.0,
    "turn": 0.0,
    "color_jitter": 0.0,
}
# The canonical frame alone makes any of them indifferent to quarter turns, so that only orders differ; the raw ones and
# the one without RFN do without it, and show what the ideas themselves give.
VARIANTS: dict[str, dict[str, Any]] = {
    "spectral": {},
    "cross-scan": {"traversal": "cross"},
    "random orders": {"traversal": "random"},
    "raw spectral": {"canonical_frame": False},
    "raw cross-scan": {"traversal": "cross", "canonical_frame": False},
    "no RFN": {"rotations": None, "canonical_frame": False},
}
LINEAR = "mean pooling, linear"
MAIN = [name for name in VARIANTS if not name.startswith("raw")]


@dataclass(frozen=True)
class Result:
    variant: str
    protocol: str
    seed: int
    fill: str
    upright: float
    quarters: list[float]
    flips: int
    mean: float
    worst: float
    worst_angle: float
    seconds: float


def settings(arguments: argparse.Namespace, variant: str, protocol: str, seed: int) -> TrainConfig:
    config = recipe(
        "lite",
        data=arguments.data,
        model_options={**VARIANTS[variant], **json.loads(arguments.model_options)},
        output=str(Path(arguments.output) / "runs" / f"{variant.replace(' ', '_')}-{protocol}-{seed}"),
        cache_folder=arguments.cache,
        image_size=arguments.size,
        epochs=arguments.epochs,
        seed=seed,
    )
    stored = config.as_dict()
    if protocol == "upright":
        stored |= {"views": 1, "augment": {**stored["augment"], **PLAIN}}
    elif variant == "no RFN":  # nothing makes it indifferent to quarter turns: it is shown the whole circle
        stored["augment"]["turn"] = 180.0
    return TrainConfig.from_dict(stored)


def measured(arguments: argparse.Namespace, config: TrainConfig, variant: str, protocol: str, console: Console):
    began = time.monotonic()
    fit(config, resume=True, reporter=Bars(console))
    seconds = time.monotonic() - began
    predictor = load(Path(config.output) / "last.safetensors", "ema")
    found = evaluate(
        predictor, rotations=arguments.step, fills=arguments.fill, workers=arguments.workers, cache=arguments.cache
    )
    return [result(variant, protocol, config.seed, sweep, seconds) for sweep in found.sweeps]


def linear(arguments: argparse.Namespace, config: TrainConfig, protocol: str) -> list[Result]:
    """Logistic regression on mean-pooled features; its weight decay chosen by cross-validation on training images."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, GroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    began = time.monotonic()
    predictor = load(Path(config.output) / "last.safetensors", "ema")
    train, val = training_data(config.data, config.val_data, config.val_fraction, config.seed)
    cache = open_cache(Path(arguments.cache), frozen_tokenizer(predictor.model), predictor.preprocessing)
    views = augmented_views(config.augment, predictor.preprocessing, config.kept_views)
    kept = kept_views(cache, train, views, arguments.workers)
    pooled = np.concatenate([_pooled(kept, view) for view in range(config.kept_views)])
    labels = np.tile(train.labels, config.kept_views)
    groups = np.tile(np.arange(len(train)), config.kept_views)  # views of a image stay together
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    search = GridSearchCV(
        model, {"logisticregression__C": [0.01, 0.1, 1.0]}, cv=GroupKFold(3), n_jobs=arguments.workers
    )
    search.fit(pooled, labels, groups=groups)
    angles, results = sweep_angles(arguments.step), []
    for fill in arguments.fill:
        turned = kept_views(cache, val, turned_views(cache.preprocessing, angles, fill), arguments.workers)
        said = {angle: torch.from_numpy(search.predict_proba(_pooled(turned, i))) for i, angle in enumerate(angles)}
        sweep = gathered_sweep(LINEAR, [(said.__getitem__, torch.from_numpy(val.labels))], angles, fill)
        results.append(result(LINEAR, protocol, config.seed, sweep, time.monotonic() - began))
    return results


def _pooled(kept: CachedDataset, view: int) -> np.ndarray:
    return np.concatenate([batch.tokens.x.mean(1).numpy() for batch in kept.batches(512, view=view)])


def result(variant: str, protocol: str, seed: int, sweep: Sweep, seconds: float) -> Result:
    return Result(
        variant,
        protocol,
        seed,
        sweep.fill,
        sweep.upright.accuracy,
        [point.accuracy for point in sweep.quarters],
        sum(point.flips for point in sweep.quarters),
        sweep.mean_accuracy,
        sweep.worst.accuracy,
        sweep.worst.angle,
        round(seconds, 1),
    )


def as_markdown(results: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| trained | body | corners | upright | at 90 / 180 / 270° | flips there | mean of the circle | worst angle |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for each in results:
        groups.setdefault((each["protocol"], each["variant"], each["fill"]), []).append(each)
    for (protocol, variant, fill), seeds in groups.items():
        quarters = [sum(each["quarters"]) / len(each["quarters"]) for each in seeds]
        cells = [
            _shares([each["upright"] for each in seeds]),
            _shares(quarters),
            ", ".join(f"{each['flips']:,}" for each in seeds),
            _shares([each["mean"] for each in seeds]),
            ", ".join(f"{100 * each['worst']:.2f} ({each['worst_angle']:g}°)" for each in seeds),
        ]
        lines.append(f"| {protocol} | {variant} | {fill} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _shares(values: Sequence[float]) -> str:
    return ", ".join(f"{100 * value:.2f}" for value in values) + " %"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="what `spectral-vmamba train --data` takes")
    parser.add_argument("--output", default="benchmarks/results/transfer")
    parser.add_argument("--cache", default="benchmarks/results/cache")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--variants", nargs="+", choices=[*VARIANTS, LINEAR], default=[*MAIN, LINEAR])
    parser.add_argument("--protocols", nargs="+", choices=["upright", "turned"], default=["upright", "turned"])
    parser.add_argument(
        "--fill", nargs="+", choices=FILLS, default=["black"], help="the disk shows none of the corners"
    )
    parser.add_argument("--step", type=float, default=15.0, help="degrees between the measured turns")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--model-options", default="{}", help="of all variants, as JSON")
    return parser.parse_args()


def main() -> None:
    arguments, console = parsed(), Console()
    folder = Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    stored = folder / "results.json"
    results: list[dict[str, Any]] = json.loads(stored.read_text())["results"] if stored.exists() else []
    for protocol in arguments.protocols:
        for variant in arguments.variants:
            for seed in arguments.seeds if variant != LINEAR else arguments.seeds[:1]:  # it draws nothing
                if any((r["variant"], r["protocol"], r["seed"]) == (variant, protocol, seed) for r in results):
                    continue
                console.rule(f"{variant}, {protocol}, seed {seed}")
                config = settings(arguments, "spectral" if variant == LINEAR else variant, protocol, seed)
                found = (
                    linear(arguments, config, protocol)
                    if variant == LINEAR
                    else measured(arguments, config, variant, protocol, console)
                )
                results += [vars(each) for each in found]
                facts = {"arguments": vars(arguments), "machine": str(measure_environment()), "results": results}
                stored.write_text(json.dumps(facts, indent=1))
                (folder / "results.md").write_text(as_markdown(results))
                console.print(as_markdown([vars(each) for each in found]), highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
