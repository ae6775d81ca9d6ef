"""From settings to the parts of a training run: data, model, optimizer, devices."""

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.loader import usual_workers
from spectral_vmamba.data.seeding import MODEL, generators_kept, reseed
from spectral_vmamba.data.sources import training_data
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference.checkpoint import Checkpoint, checkpoint_path, load_checkpoint
from spectral_vmamba.inference.network import build_model, preprocessing_of
from spectral_vmamba.training.distributed import keep_group
from spectral_vmamba.training.feeds import Feed, PixelFeed, cache_feed
from spectral_vmamba.training.learner import Learner, load_weights
from spectral_vmamba.training.reporting import Reporter, Silent
from spectral_vmamba.training.run_folder import RunFolder
from spectral_vmamba.training.train_config import TrainConfig

if TYPE_CHECKING:
    from accelerate import Accelerator


@dataclass(frozen=True)
class Setup:
    """`forward` and `optimizer` are the learner's model and optimizer as accelerate wraps them."""

    accelerator: "Accelerator"
    train: ImageDataset
    val: ImageDataset
    preprocessing: Preprocessing
    learner: Learner
    forward: Callable[[Tensor], Tensor]
    optimizer: Any
    images_per_step: int
    feed: Feed
    reporter: Reporter
    fingerprints: dict[str, str]


def set_up(config: TrainConfig, folder: RunFolder, reporter: Reporter, checkpoint: Checkpoint | None = None) -> Setup:
    """With the weights of the checkpoint of a run that goes on: what a frozen stem says must come from its own."""
    train, val = training_data(config.data, config.val_data, config.val_fraction, config.seed)
    if len(set(train.labels.tolist())) < 2:
        raise ValueError(f"expected images of at least two classes in {config.data}, got {train.classes}")
    accelerator = _accelerator(config, folder)
    reporter = reporter if accelerator.is_main_process else Silent()
    with generators_kept():
        reseed(MODEL, config.seed)
        model = build_model(config.model, config.model_options, train.classes, config.drop_path)
    fingerprints = {"train": train.fingerprint(), "val": val.fingerprint()}
    if checkpoint is not None:
        _check_images(checkpoint, fingerprints, folder)
        load_weights(model, checkpoint.part("raw"))
    elif config.initial:
        _take_weights(model, checkpoint_path(config.initial), train.classes)
    preprocessing = preprocessing_of(model, config.image_size, config.crop)
    model = model.to(accelerator.device)
    images_per_step = config.batch_size * accelerator.num_processes
    learner = Learner.of(model, config, min(images_per_step, len(train)))
    feed = _feed(config, train, val, preprocessing, model, accelerator, reporter)
    forward, optimizer = accelerator.prepare(model, learner.optimizer)
    keep_group(forward)
    if accelerator.is_main_process:
        folder.write_settings(config)
        if checkpoint is None:
            folder.forget_broken()
    return Setup(
        accelerator,
        train,
        val,
        preprocessing,
        learner,
        torch.compile(forward) if config.compile else forward,  # pyright: ignore[reportArgumentType]
        optimizer,
        images_per_step,
        feed,
        reporter,
        fingerprints,
    )


def _feed(
    config: TrainConfig,
    train: ImageDataset,
    val: ImageDataset,
    preprocessing: Preprocessing,
    model: torch.nn.Module,
    accelerator: "Accelerator",
    reporter: Reporter,
) -> Feed:
    workers = usual_workers(accelerator.num_processes) if config.workers is None else config.workers
    pixels = PixelFeed(config, train, val, preprocessing, accelerator.device, workers)
    if not config.cache:
        return pixels
    mine, of = accelerator.process_index, accelerator.num_processes
    return cache_feed(config, model, pixels, reporter, mine, of, accelerator.wait_for_everyone)


def _accelerator(config: TrainConfig, folder: RunFolder) -> "Accelerator":
    try:
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState
    except ImportError as error:
        raise ImportError(f"training needs {error.name}; pip install 'spectral-vmamba[train]'") from error
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        # accelerate remembers device and precision for the whole process; here they are settings of a run.
        AcceleratorState._reset_state(reset_partial_state=True)
    tracker = _tracker(config.tracker)
    accelerator = Accelerator(
        cpu=config.device == "cpu",
        mixed_precision=config.precision,
        gradient_accumulation_steps=config.accumulate,
        log_with=tracker,
        project_dir=str(folder.logs),
    )
    if tracker:
        accelerator.init_trackers("spectral_vmamba")
    return accelerator


def _tracker(name: str) -> str | None:
    if name == "auto":
        return "tensorboard" if importlib.util.find_spec("tensorboard") else None
    return None if name == "none" else name


def _check_images(checkpoint: Checkpoint, fingerprints: dict[str, str], folder: RunFolder) -> None:
    if checkpoint.facts["fingerprints"] != fingerprints:
        raise ValueError(
            f"the images are not those that the run in {folder.path} was begun with (names, sizes, labels "
            "or classes differ); bring these back to go on, or begin a new run"
        )


def _take_weights(model: torch.nn.Module, path: Path, classes: tuple[str, ...]) -> None:
    """Weights of another run. A classifier for other classes begins anew; everything else must fit."""
    checkpoint = load_checkpoint(path)
    weights = checkpoint.part(checkpoint.facts["best"].get("weights", "raw"))
    if tuple(checkpoint.facts["classes"]) != classes:
        weights = {name: tensor for name, tensor in weights.items() if not name.startswith("head")}
    own = {name: tensor.shape for name, tensor in model.state_dict().items() if not name.startswith("head")}
    given = {name: tensor.shape for name, tensor in weights.items() if not name.startswith("head")}
    if own != given:
        differing = [name for name in {**own, **given} if own.get(name) != given.get(name)]
        told = f"{len(differing)} tensors are missing, unknown or of another shape, {differing[0]} for one"
        raise ValueError(f"{path} does not fit the model {type(model).__name__}: {told}")
    model.load_state_dict(weights, strict=False)
