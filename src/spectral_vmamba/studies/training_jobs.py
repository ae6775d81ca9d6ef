"""Rows that need a trained network. Runs are shared by all studies of an output folder."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from spectral_vmamba._version import __version__
from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.subsets import write_subset
from spectral_vmamba.inference import Evaluation, Predictor, evaluate, load
from spectral_vmamba.inference.evaluate import evaluation_images
from spectral_vmamba.models import create_model, find_family, is_spectral
from spectral_vmamba.models.stem_factory import check_stem_weights
from spectral_vmamba.studies.study import Job, StudyOptions, digest
from spectral_vmamba.studies.variants import (
    Variant,
    check_compared,
    choose_variants,
    merge_model_options,
    merge_settings,
)
from spectral_vmamba.training import FitResult, Reporter, TrainConfig, fit, recipe
from spectral_vmamba.training.classification_task import training_options
from spectral_vmamba.training.run_config import RunConfig
from spectral_vmamba.utils.atomic_files import only_writer
from spectral_vmamba.utils.progress import Progress
from spectral_vmamba.utils.settings import to_json_dict

Row = TypeVar("Row")
# They do not change the weights.
_WITHOUT_EFFECT = ("output", "workers", "tracker", "save_minutes", "cache_folder", "device")
# Fingerprints tell their content.
_DATA = ("data", "val_data")
# Left out of the digest at their defaults: runs that were trained before they existed are still found.
_NEWER_SETTINGS = ("teacher", "teacher_share", "teacher_temperature")
_PROBE_IMAGES = (2, 32)
_SLOW = 0.1  # seconds for an image: large networks are timed with the smaller number
# Data without validation images is divided once, so that all seeds have the same test images.
_SPLIT_SEED = 0


@dataclass(frozen=True)
class TrainedRun:
    """A finished training run. The averaged weights of its last epoch are measured: no choice depends on the test
    images."""

    variant: Variant
    seed: int
    config: TrainConfig
    result: FitResult

    @cached_property
    def predictor(self) -> Predictor:
        """With the images where they are now: a finished run may have been trained from another folder."""
        predictor = load(self.result.folder / "last.safetensors", "ema" if self.config.ema else "raw")
        assert predictor.header is not None
        return replace(predictor, header=replace(predictor.header, split=self.config.split))

    @property
    def trainable_parameters(self) -> int:
        parameters = self.predictor.model.parameters()
        return sum(parameter.numel() for parameter in parameters if parameter.requires_grad)

    def test_images(self, count: int) -> Float[Tensor, "b c h w"]:
        """At most `count` test images, evenly spaced, as the network takes them."""
        dataset, _ = evaluation_images(self.predictor, None)
        chosen = np.linspace(0, len(dataset) - 1, min(count, len(dataset))).round().astype(int)
        transform = self.predictor.preprocessing.eval_transform()
        return self.predictor.inputs(torch.stack([transform(dataset.open(int(i))).pixels for i in chosen]))

    def evaluate(
        self, options: StudyOptions, rotations: float, progress: Progress, predictor: Predictor | None = None
    ) -> Evaluation:
        """Evaluate the trained network, or a changed one with its header."""
        return evaluate(
            predictor or self.predictor,
            rotations=rotations,
            workers=options.workers,
            cache_folder=self.config.cache_folder,
            progress=progress,
        )


def count_quarter_flips(evaluation: Evaluation) -> int:
    """Predictions that change at 90, 180 and 270°."""
    return sum(point.flips for point in evaluation.sweeps[0].quarters)


Measure = Callable[[TrainedRun, Progress], Row]


def training_jobs(
    options: StudyOptions, variants: Sequence[Variant], measure: Measure[Row], measured: Mapping[str, Any]
) -> list[Job[Row]]:
    """A job for each variant and seed. `measured` contains what else determines the numbers of a trained network."""
    check_compared(options, variants)
    variants = choose_variants(options, variants)
    if options.initial:
        raise ValueError("--initial is an option of the study segmentation; leave it out")
    source = _Source.prepare(options)
    estimates: dict[str, float] = {}
    return [
        _training_job(options, source, variant, seed, measure, measured, estimates)
        for variant in variants
        for seed in options.seeds
    ]


@dataclass(frozen=True)
class _Source:
    """The images of a study, and a fingerprint of them."""

    data: str
    val_data: str | None
    train: ImageDataset
    fingerprint: str

    @classmethod
    def prepare(cls, options: StudyOptions) -> "_Source":
        scale, val_data = options.settings_of_scale, options.val_data
        data = options.data or scale.data
        if data is None:
            raise ValueError(
                f"the scale {scale.name} needs training images: a folder, a .csv, a .npz pack or the name of a "
                "dataset, as --data photos/; the scale digits brings its own"
            )
        if options.train_images or options.test_images:
            folder = Path(options.output) / "data"
            folder.mkdir(parents=True, exist_ok=True)
            data = str(write_subset(folder, data, val_data, options.train_images, options.test_images))
            val_data = None
        config = recipe(scale.recipe, data=data, val_data=val_data, split_seed=_SPLIT_SEED, **scale.settings)
        split = config.split.read()
        tested = split.test or split.val
        return cls(data, val_data, split.train, digest([part.fingerprint() for part in (split.train, tested)]))

    def config(self, options: StudyOptions, variant: Variant, seed: int) -> TrainConfig:
        scale = options.settings_of_scale
        given = {"epochs": options.epochs, "image_size": options.image_size, "workers": options.workers}
        changes = {name: value for name, value in given.items() if value is not None}
        if options.epochs:
            changes["min_steps"] = 0
        settings = {**scale.settings, **variant.settings, **changes}
        settings = merge_settings(settings, options.settings)
        settings["model_options"] = merge_model_options(options, settings, recipe(scale.recipe).model_options, seed)
        data = {"data": self.data, "val_data": self.val_data, "split_seed": _SPLIT_SEED}
        try:
            config = recipe(scale.recipe, **data, seed=seed, tracker="none", **settings)
        except TypeError as error:
            raise ValueError(f"the settings of the study: {error}") from error
        if config.cache:
            config = replace(config, cache_folder=options.cache_folder)
        name = f"{config.model}-{digest([settings_that_matter(config), self.fingerprint, __version__])}"
        return replace(config, output=str(Path(options.output) / "runs" / name))


def settings_that_matter(config: RunConfig) -> dict[str, Any]:
    """The settings that determine the weights, besides the images, whose place does not."""
    defaults = {each.name: each.default for each in fields(config) if each.name in _NEWER_SETTINGS}
    return {
        name: value
        for name, value in to_json_dict(config).items()
        if name not in (*_WITHOUT_EFFECT, *_DATA) and not (name in defaults and value == defaults[name])
    }


def _training_job(
    options: StudyOptions,
    source: _Source,
    variant: Variant,
    seed: int,
    measure: Measure[Row],
    measured: Mapping[str, Any],
    estimates: dict[str, float],
) -> Job[Row]:
    """`estimates` are shared by the seeds of a network, so that each network is timed once."""
    config = source.config(options, variant, seed)

    def run(reporter: Reporter) -> Row:
        with only_writer(Path(config.output), "training run"):
            result = fit(config, resume=True, reporter=reporter)
        return measure(TrainedRun(variant, seed, config, result), reporter.track)

    key = {"run": Path(config.output).name, "label": variant.label, **measured}
    label = f"{variant.label}, frame {config.frame or 'none'}, seed {seed}"

    def estimate() -> float:
        alike = digest([settings_that_matter(replace(config, seed=0)), _finished_epochs(config)])
        if alike not in estimates:
            estimates[alike] = estimate_training(config, len(source.train))
        return estimates[alike]

    return Job(label, key, run, estimate, lambda: _check_stem(config))


def _check_stem(config: TrainConfig) -> None:
    """Raise a FileNotFoundError if a stem of pretrained weights is to be trained on, and has none on this machine."""
    family = find_family(config.model)
    if family is None or not is_spectral(config.model) or _finished_epochs(config):
        return
    network: Any = family.config(config.model, **training_options(config))
    check_stem_weights(network)


def estimate_training(config: TrainConfig, images: int) -> float:
    """The seconds that a training run still takes, from those of one step with random images, without validation and
    tests."""
    steps_per_epoch = -(-images // config.batch_size)
    steps = max(config.epochs * steps_per_epoch, config.min_steps) - _finished_epochs(config) * steps_per_epoch
    if steps <= 0:
        return 0.0
    options = {**config.network_options, "frame": "quarter"} if config.frame == "upright" else config.network_options
    model = create_model(config.model, num_classes=10, **options)
    channels, height, width = model.pretrained_cfg["input_size"]
    size = (config.image_size or height, config.image_size or width)
    pixels = torch.randn(max(_PROBE_IMAGES), channels, *size)

    def step(inputs: Any) -> None:
        model.train()
        model(inputs).logsumexp(1).sum().backward()

    shown = steps * config.batch_size
    if not config.cache:
        return shown * _seconds_per_image(lambda count: step(pixels[:count]))
    with torch.no_grad():
        tokens = {count: model.tokenizer(pixels[:count]) for count in _PROBE_IMAGES}
        stem = _seconds_per_image(lambda count: model.tokenizer(pixels[:count]))
    return images * config.view_count * stem + shown * _seconds_per_image(lambda count: step(tokens[count]))


def _finished_epochs(config: TrainConfig) -> int:
    history = Path(config.output) / "history.json"
    return len(json.loads(history.read_text(encoding="utf-8"))) if history.exists() else 0


def _seconds_per_image(work: Callable[[int], object]) -> float:
    """Of a step with a number of images; a first step warms up."""
    few, many = _PROBE_IMAGES
    work(few)
    seconds = _time(work, few)
    if seconds > _SLOW:
        return seconds
    work(many)
    return _time(work, many)


def _time(work: Callable[[int], object], images: int) -> float:
    start = time.perf_counter()
    work(images)
    return (time.perf_counter() - start) / images


def row_fields(run: TrainedRun) -> dict[str, Any]:
    """The fields of `TrainedRow`."""
    return {
        "network": run.variant.label,
        "frame": run.config.frame or "none",
        "seed": run.seed,
        "training_seconds": round(sum(epoch.seconds for epoch in run.result.history), 1),
    }


@dataclass(frozen=True)
class TrainedRow:
    """What every row of a trained network has; `training_seconds` without the evaluation of the study."""

    network: str
    frame: str
    seed: int
    training_seconds: float


def by_network(rows: Sequence[Any]) -> dict[tuple[str, str], list[Any]]:
    """The rows of all seeds, by network and frame."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        groups.setdefault((row.network, row.frame), []).append(row)
    return groups
