"""Transfer learning on a dataset: spectral_vmamba_lite against variants of it, evaluated on rotated images.

    python benchmarks/transfer.py aid_128.npz --output results/aid --seeds 0 1 2

All runs train on, and are evaluated on, the features of the frozen stem, from a cache that they share. There are two
protocols: `upright` (one plain view per image, as in the paper) and `turned` (eight views with flips, crops, colors and
rotations). The averaged weights of the last epoch are evaluated: no choice depends on the test images. Finished runs
stay in the output folder; run the same command again to resume. Writes results.json and results.md.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from spectral_vmamba.features import (
    CachedDataset,
    augmented_views,
    cache_dataset,
    frozen_tokenizer,
    open_store,
    rotated_views,
)
from spectral_vmamba.inference import evaluate, load
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.metrics.rotation import Sweep, collect_sweep, sweep_angles
from spectral_vmamba.ops.turns import FILLS, Rotation
from spectral_vmamba.training import TerminalReporter, TrainConfig, fit, recipe

PLAIN = {
    "crop_scale": (1.0, 1.0),
    "crop_ratio": (1.0, 1.0),
    "hflip": 0.0,
    "vflip": 0.0,
    "rotation": 0.0,
    "color_jitter": 0.0,
}
# With the canonical frame every variant is invariant to quarter turns, and only the visiting orders differ. The raw
# variants and the one without RFN have no canonical frame and show the effect of RFN and STS themselves.
VARIANTS: dict[str, dict[str, Any]] = {
    "spectral": {},
    "cross-scan": {"traversal": "cross"},
    "random orders": {"traversal": "random"},
    "raw spectral": {"canonical_frame": False},
    "raw cross-scan": {"traversal": "cross", "canonical_frame": False},
    "no RFN": {"rotations": None, "canonical_frame": False},
}
LINEAR = "mean pooling, linear"
DEFAULT_VARIANTS = [name for name in VARIANTS if not name.startswith("raw")]


@dataclass(frozen=True)
class Result:
    """Accuracies (0 to 1) of one run; `quarters` are those at 90, 180 and 270°, `flips` the changed predictions there.

    `mean` and `worst` are over all angles.
    """

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


def make_config(options: argparse.Namespace, variant: str, protocol: str, seed: int) -> TrainConfig:
    config = recipe(
        "lite",
        data=options.data,
        model_options={**VARIANTS[variant], **json.loads(options.model_options)},
        output=str(Path(options.output) / "runs" / f"{variant.replace(' ', '_')}-{protocol}-{seed}"),
        cache_folder=options.cache,
        image_size=options.size,
        epochs=options.epochs,
        seed=seed,
    )
    if protocol == "upright":
        return replace(config, views=1, augment=replace(config.augment, **PLAIN))
    if variant == "no RFN":  # not invariant to quarter turns: it needs views of the whole circle
        return replace(config, augment=replace(config.augment, rotation=180.0))
    return config


def train_variant(
    options: argparse.Namespace, config: TrainConfig, variant: str, protocol: str, console: Console
) -> list[Result]:
    """Train and evaluate; return one result for each fill."""
    start = time.monotonic()
    fit(config, resume=True, reporter=TerminalReporter(console))
    seconds = time.monotonic() - start
    predictor = load(Path(config.output) / "last.safetensors", "ema")
    evaluation = evaluate(
        predictor, rotations=options.step, fill=options.fill, workers=options.workers, cache_folder=options.cache
    )
    return [make_result(variant, protocol, config.seed, sweep, seconds) for sweep in evaluation.sweeps]


def train_linear(options: argparse.Namespace, config: TrainConfig, protocol: str) -> list[Result]:
    """Logistic regression on mean-pooled features; cross-validation on training images chooses the weight decay.

    Uses the stem and the views of the finished run of `config`.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, GroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    start = time.monotonic()
    predictor = load(Path(config.output) / "last.safetensors", "ema")
    train, val, _ = config.split.read()
    store = open_store(Path(options.cache), frozen_tokenizer(predictor.model), predictor.preprocessing)
    views = augmented_views(config.augment, predictor.preprocessing, config.view_count)
    cached = cache_dataset(store, train, views, options.workers)
    inputs = np.concatenate([_pool_tokens(cached, view) for view in range(config.view_count)])
    labels = np.tile(train.labels, config.view_count)
    groups = np.tile(np.arange(len(train)), config.view_count)  # views of an image stay in one fold
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    grid = {"logisticregression__C": [0.01, 0.1, 1.0]}
    search = GridSearchCV(model, grid, cv=GroupKFold(3), n_jobs=options.workers)
    search.fit(inputs, labels, groups=groups)
    angles, results = sweep_angles(options.step), []
    for fill in options.fill:
        rotated = cache_dataset(
            store, val, rotated_views(store.preprocessing, [Rotation(angle, fill) for angle in angles]), options.workers
        )
        probabilities = {
            angle: torch.from_numpy(search.predict_proba(_pool_tokens(rotated, view)))
            for view, angle in enumerate(angles)
        }
        answers = [(probabilities.__getitem__, torch.from_numpy(val.labels))]
        sweep = collect_sweep(LINEAR, answers, angles, fill)
        results.append(make_result(LINEAR, protocol, config.seed, sweep, time.monotonic() - start))
    return results


def _pool_tokens(cached: CachedDataset, view: int) -> np.ndarray:
    return np.concatenate([batch.inputs.x.mean(1).numpy() for batch in cached.batches(512, view=view)])


def make_result(variant: str, protocol: str, seed: int, sweep: Sweep, seconds: float) -> Result:
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


def format_markdown(results: Sequence[Result]) -> str:
    """Return a table with one row per protocol, variant and fill; the seeds share a cell."""
    lines = [
        "| trained | body | corners | upright | at 90 / 180 / 270° | flips there | mean of the circle | worst angle |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.protocol, result.variant, result.fill), []).append(result)
    for names, seeds in groups.items():
        cells = [
            *names,
            _format_percentages([result.upright for result in seeds]),
            _format_percentages([sum(result.quarters) / len(result.quarters) for result in seeds]),
            ", ".join(f"{result.flips:,}" for result in seeds),
            _format_percentages([result.mean for result in seeds]),
            ", ".join(f"{100 * result.worst:.2f} ({result.worst_angle:g}°)" for result in seeds),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _format_percentages(values: Sequence[float]) -> str:
    return ", ".join(f"{100 * value:.2f}" for value in values) + " %"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="images, as in `spectral-vmamba train --data`")
    parser.add_argument("--output", default="benchmarks/results/transfer", help="folder for runs and results")
    parser.add_argument("--cache", default="benchmarks/results/cache", help="folder of the feature cache")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--variants", nargs="+", choices=[*VARIANTS, LINEAR], default=[*DEFAULT_VARIANTS, LINEAR])
    parser.add_argument("--protocols", nargs="+", choices=["upright", "turned"], default=["upright", "turned"])
    parser.add_argument(
        "--fill", nargs="+", choices=FILLS, default=["black"], help="corners of rotated images; a disk has no corners"
    )
    parser.add_argument("--step", type=float, default=15.0, help="degrees between the angles of the evaluation")
    parser.add_argument("--size", type=int, default=128, help="pixels per side")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--workers", type=int, default=2, help="processes that fill the cache")
    parser.add_argument("--model-options", default="{}", help="model keywords of all variants, as JSON")
    return parser.parse_args()


def main() -> None:
    options, console = parse_options(), Console()
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.json"
    results = [Result(**row) for row in json.loads(path.read_text())["results"]] if path.exists() else []
    finished = {(result.variant, result.protocol, result.seed) for result in results}
    runs = [
        (variant, protocol, seed)
        for protocol in options.protocols
        for variant in options.variants
        for seed in (options.seeds if variant != LINEAR else options.seeds[:1])  # the regression has no randomness
    ]
    for variant, protocol, seed in runs:
        if (variant, protocol, seed) in finished:
            continue
        console.rule(f"{variant}, {protocol}, seed {seed}")
        if variant == LINEAR:
            added = train_linear(options, make_config(options, "spectral", protocol, seed), protocol)
        else:
            config = make_config(options, variant, protocol, seed)
            added = train_variant(options, config, variant, protocol, console)
        results += added
        report = {
            "arguments": vars(options),
            "machine": asdict(measure_environment()),
            "results": [asdict(result) for result in results],
        }
        path.write_text(json.dumps(report, indent=1))
        (folder / "results.md").write_text(format_markdown(results))
        console.print(format_markdown(added), highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
