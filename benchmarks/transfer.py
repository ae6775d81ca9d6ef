"""Transfer learning on a dataset: spectral_vmamba_lite against variants of it, evaluated on rotated images.

    python benchmarks/transfer.py aid_128.npz --output results/aid --seeds 0 1 2

All runs train on, and are evaluated on, the features of the frozen stem, from a cache that they share. There are two
protocols: `upright` (one plain view per image, as in the paper) and `turned` (eight views with flips, crops, colors and
rotations). The averaged weights of the last epoch are evaluated: no choice depends on the test images. Finished runs
stay in the output folder; run the same command again to resume. Writes results.json and results.md.

The baseline `whole network, linear` is logistic regression on the 1,280 pooled features of the whole pretrained
EfficientNet-Lite0, one pass per image, without rotation invariance of any kind: `upright` is trained on the upright
images, `turned` on their four quarter turns. It needs no runs of the others:

    python benchmarks/transfer.py aid_128.npz --output results/aid --variants "whole network, linear"
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, GroupShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.loader import eval_batches
from spectral_vmamba.features import (
    CachedDataset,
    augmented_views,
    cache_dataset,
    frozen_tokenizer,
    open_store,
    rotated_views,
)
from spectral_vmamba.inference import evaluate, load
from spectral_vmamba.inference.network import default_preprocessing
from spectral_vmamba.metrics.environment import measure_environment
from spectral_vmamba.metrics.rotation import Sweep, collect_sweep, sweep_angles
from spectral_vmamba.models import create_model
from spectral_vmamba.models.whole_network import build_whole_network
from spectral_vmamba.ops.turns import FILLS, Rotation, rotate_pixels
from spectral_vmamba.training import TerminalReporter, TrainConfig, fit, recipe

PLAIN = {
    "crop_scale": (1.0, 1.0),
    "crop_ratio": (1.0, 1.0),
    "hflip": 0.0,
    "vflip": 0.0,
    "rotation": 0.0,
    "color_jitter": 0.0,
    "auto_augment": "",
}
# With the quarter frame every variant is invariant to quarter turns, and only the visiting orders differ. The raw
# variants and the one without RFN have no frame and show the effect of RFN and STS themselves.
VARIANTS: dict[str, dict[str, Any]] = {
    "spectral": {},
    "cross-scan": {"traversal": "cross"},
    "random orders": {"traversal": "random"},
    "raw spectral": {"frame": "none"},
    "raw cross-scan": {"traversal": "cross", "frame": "none"},
    "no RFN": {"turns": 1, "frame": "none"},
}
LINEAR = "mean pooling, linear"
WHOLE = "whole network, linear"
NETWORK = "tf_efficientnet_lite0"  # the one that the stem of spectral_vmamba_lite is cut from
BASELINES = (LINEAR, WHOLE)
DEFAULT_VARIANTS = [*(name for name in VARIANTS if not name.startswith("raw")), *BASELINES]


@dataclass(frozen=True)
class Result:
    """Accuracies (0 to 1) of one run; `quarters` are those at 90, 180 and 270°, `flips` the changed predictions there.

    `mean` and `worst` are over all angles; agreement is the share of images with their prediction upright.
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
    mean_agreement: float | None = None
    least_agreement: float | None = None


def make_config(options: argparse.Namespace, variant: str, protocol: str, seed: int) -> TrainConfig:
    config = recipe(
        "lite",
        frame=None,
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
    # Rotations of up to 45° cover the circle for networks that are invariant to quarter turns.
    rotation = 180.0 if variant == "no RFN" else 45.0
    return replace(config, augment=replace(config.augment, rotation=rotation))


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
    start = time.monotonic()
    predictor = load(Path(config.output) / "last.safetensors", "ema")
    train, val, _ = config.split.read()
    store = open_store(Path(options.cache), frozen_tokenizer(predictor.model), predictor.preprocessing)
    views = augmented_views(config.augment, predictor.preprocessing, config.view_count)
    cached = cache_dataset(store, train, views, options.workers)
    inputs = np.concatenate([_pool_tokens(cached, view) for view in range(config.view_count)])
    labels = np.tile(train.labels, config.view_count)
    groups = np.tile(np.arange(len(train)), config.view_count)  # views of an image stay in one fold
    regression = _fit_regression(inputs, labels, groups, GroupKFold(3), [0.01, 0.1, 1.0], options.workers)
    rotations = [Rotation(angle, fill) for fill in options.fill for angle in sweep_angles(options.step)]
    rotated = cache_dataset(store, val, rotated_views(store.preprocessing, rotations), options.workers)
    features_at = {rotation: partial(_pool_tokens, rotated, view) for view, rotation in enumerate(rotations)}
    return _measure_regression(options, regression, lambda r: features_at[r](), val, LINEAR, protocol, start)


@dataclass
class WholeNetwork:
    """The pooled features of the whole pretrained network, computed once for each dataset and rotation."""

    options: argparse.Namespace
    computed: dict[tuple[str, Rotation], np.ndarray] = field(default_factory=dict)

    def features(self, dataset: ImageDataset, rotation: Rotation) -> np.ndarray:
        key = (dataset.fingerprint(), rotation.simplify(disk_only=False))
        if key not in self.computed:
            self.computed[key] = self._compute(dataset, rotation)
        return self.computed[key]

    def _compute(self, dataset: ImageDataset, rotation: Rotation) -> np.ndarray:
        options = self.options
        network = build_whole_network(NETWORK)
        preprocessing = replace(default_preprocessing(create_model("spectral_vmamba_lite"), options.size), frame="none")
        batches = eval_batches(dataset, preprocessing.eval_transform(), 64, options.workers)
        with torch.inference_mode():
            rotated = (rotate_pixels(batch.inputs, *rotation) for batch in batches)
            images = (normalize(pixels, preprocessing.mean, preprocessing.std) for pixels in rotated)
            return torch.cat([network(each).mean((-2, -1)) for each in images]).numpy()


def train_whole_network(network: WholeNetwork, config: TrainConfig, protocol: str) -> list[Result]:
    """Logistic regression on the pooled features of the whole pretrained network, one pass per view.

    A held-out fifth of the training images chooses the weight decay.
    """
    start, options = time.monotonic(), network.options
    train, val = config.split.read()[:2]
    angles = [0.0] if protocol == "upright" else [0.0, 90.0, 180.0, 270.0]
    inputs = np.concatenate([network.features(train, Rotation(angle, "black")) for angle in angles])
    labels, groups = np.tile(train.labels, len(angles)), np.tile(np.arange(len(train)), len(angles))
    held_out = GroupShuffleSplit(1, test_size=0.2, random_state=0)
    regression = _fit_regression(inputs, labels, groups, held_out, [1e-4, 1e-3, 1e-2, 0.1, 1.0], options.workers)
    return _measure_regression(options, regression, partial(network.features, val), val, WHOLE, protocol, start)


def _fit_regression(
    inputs: np.ndarray, labels: np.ndarray, groups: np.ndarray, folds: Any, values: Sequence[float], workers: int
) -> GridSearchCV:
    """Logistic regression on standardized features. `values` are those of C; views of an image stay in one fold."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    search = GridSearchCV(model, {"logisticregression__C": list(values)}, cv=folds, n_jobs=workers or 1)
    return search.fit(inputs, labels, groups=groups)


def _measure_regression(
    options: argparse.Namespace,
    regression: GridSearchCV,
    features_at: Callable[[Rotation], np.ndarray],
    dataset: ImageDataset,
    variant: str,
    protocol: str,
    start: float,
) -> list[Result]:
    """Return one result for each fill. There is no randomness, and no seed other than that of the split."""
    angles, labels = sweep_angles(options.step), torch.from_numpy(dataset.labels)
    classes = torch.from_numpy(regression.classes_)
    results = []
    for fill in options.fill:
        probabilities = {}
        for angle in angles:
            of_seen_classes = torch.from_numpy(regression.predict_proba(features_at(Rotation(angle, fill))))
            probabilities[angle] = torch.zeros(len(labels), len(dataset.classes)).to(of_seen_classes)
            probabilities[angle][:, classes] = of_seen_classes
        sweep = collect_sweep(variant, [(probabilities.__getitem__, labels)], angles, fill)
        results.append(make_result(variant, protocol, options.seeds[0], sweep, time.monotonic() - start))
    return results


def _pool_tokens(cached: CachedDataset, view: int) -> np.ndarray:
    return np.concatenate([batch.inputs.x.mean(1).numpy() for batch in cached.batches(512, view=view)])


def make_result(variant: str, protocol: str, seed: int, sweep: Sweep, seconds: float) -> Result:
    agreements = [point.agreement for point in sweep.points if point.angle]
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
        sum(agreements) / len(agreements) if agreements else None,
        min(agreements, default=None),
    )


def format_markdown(results: Sequence[Result]) -> str:
    """Return a table with one row per protocol, variant and fill; the seeds share a cell."""
    lines = [
        "| trained | body | corners | upright | at 90 / 180 / 270° | flips there | mean of the circle | worst angle | "
        "agreement: mean, least |",
        "|---|---|---|---|---|---|---|---|---|",
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
            ", ".join(map(_format_agreement, seeds)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _format_agreement(result: Result) -> str:
    if result.mean_agreement is None or result.least_agreement is None:
        return "–"
    return f"{100 * result.mean_agreement:.2f}; {100 * result.least_agreement:.2f}"


def _format_percentages(values: Sequence[float]) -> str:
    return ", ".join(f"{100 * value:.2f}" for value in values) + " %"


def option_parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="images, as in `spectral-vmamba train --data`")
    parser.add_argument("--output", default="benchmarks/results/transfer", help="folder for runs and results")
    parser.add_argument("--cache", default="benchmarks/results/cache", help="folder of the feature cache")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument(
        "--fill", nargs="+", choices=FILLS, default=["black"], help="corners of rotated images; a disk has no corners"
    )
    parser.add_argument("--step", type=float, default=15.0, help="degrees between the angles of the evaluation")
    parser.add_argument("--size", type=int, default=128, help="pixels per side")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--workers", type=int, default=2, help="processes that fill the cache")
    parser.add_argument("--model-options", default="{}", help="model keywords of all variants, as JSON")
    return parser


def run(options: argparse.Namespace, networks: Sequence[tuple[str, str]], console: Console) -> list[Result]:
    """Train and evaluate every (variant, protocol) with every seed, except those that are finished."""
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.json"
    results = [Result(**row) for row in json.loads(path.read_text())["results"]] if path.exists() else []
    finished = {(result.variant, result.protocol, result.seed) for result in results}
    runs = [
        (variant, protocol, seed)
        for variant, protocol in networks
        for seed in (options.seeds if variant in VARIANTS else options.seeds[:1])  # regression has no randomness
    ]
    whole_network = WholeNetwork(options)
    for variant, protocol, seed in runs:
        if (variant, protocol, seed) in finished:
            continue
        console.rule(f"{variant}, {protocol}, seed {seed}")
        if variant == LINEAR:
            added = train_linear(options, make_config(options, "spectral", protocol, seed), protocol)
        elif variant == WHOLE:
            added = train_whole_network(whole_network, make_config(options, "spectral", protocol, seed), protocol)
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
    return results


def main() -> None:
    parser = option_parser(__doc__ or "")
    parser.add_argument("--variants", nargs="+", choices=[*VARIANTS, *BASELINES], default=DEFAULT_VARIANTS)
    parser.add_argument("--protocols", nargs="+", choices=["upright", "turned"], default=["upright", "turned"])
    options = parser.parse_args()
    networks = [(variant, protocol) for protocol in options.protocols for variant in options.variants]
    run(options, networks, Console())


if __name__ == "__main__":
    main()
