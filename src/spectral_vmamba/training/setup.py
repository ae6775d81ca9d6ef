"""From settings to the parts of a training run: data, model, optimizer, devices."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.loader import default_workers
from spectral_vmamba.data.seeding import MODEL, preserve_generators, reseed
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference.checkpoint import (
    Checkpoint,
    check_classes,
    find_checkpoint,
    load_checkpoint,
    load_weights,
)
from spectral_vmamba.inference.model_options import check_model, storable_options, without_initial_weights
from spectral_vmamba.inference.network import build_classifier, check_stem, default_preprocessing, stem_digest
from spectral_vmamba.models.registry import is_spectral
from spectral_vmamba.models.tokenizer import SpectralTokenizer
from spectral_vmamba.models.tokens import Inputs
from spectral_vmamba.ops.frames import FRAMES, Frame
from spectral_vmamba.training.distributed import keep_process_group_alive
from spectral_vmamba.training.feeds import Feed, PixelFeed, make_cached_feed
from spectral_vmamba.training.frame_choice import choose_frame
from spectral_vmamba.training.learner import Learner
from spectral_vmamba.training.reporting import Reporter, SilentReporter
from spectral_vmamba.training.run import RunFolder
from spectral_vmamba.training.train_config import TrainConfig
from spectral_vmamba.training.upright_fit import fit_upright
from spectral_vmamba.utils.devices import resolve_device
from spectral_vmamba.utils.extras import require
from spectral_vmamba.utils.wording import plural

if TYPE_CHECKING:
    from accelerate import Accelerator


@dataclass(frozen=True)
class Setup:
    """`config` has the frame that was chosen. `forward` and `optimizer` are the learner's model and optimizer as
    wrapped by accelerate."""

    config: TrainConfig
    accelerator: "Accelerator"
    train: ImageDataset
    val: ImageDataset
    test_images: int
    preprocessing: Preprocessing
    learner: Learner
    forward: Callable[[Inputs], Tensor]
    optimizer: Any
    images_per_step: int
    feed: Feed
    reporter: Reporter
    fingerprints: dict[str, str]
    stem_sha256: str | None


def set_up(config: TrainConfig, folder: RunFolder, reporter: Reporter, checkpoint: Checkpoint | None = None) -> Setup:
    """Prepare a run. A resumed run loads its checkpoint first: cached features must come from its own stem."""
    resolve_device(config.device)  # accelerate chooses among the GPUs of a job, but does not report a missing one
    train, val, test = config.split.read()
    if len(set(train.labels.tolist())) < 2:
        raise ValueError(f"expected images of at least two classes in {config.data}, got {train.classes}")
    check_classes(train.classes)
    accelerator = _make_accelerator(config, folder)
    reporter = reporter if accelerator.is_main_process else SilentReporter()
    if config.frame == "auto":
        config = replace(config, frame=_choose_frame(config, train, accelerator, reporter))
    with preserve_generators():
        reseed(MODEL, config.seed)
        options = _training_options(config, checkpoint)
        model = build_classifier(config.model, options, train.classes, config.drop_path)
    check_model(config.model, storable_options(config.network_options))  # `load` would not accept other ones
    parts = {"train": train, "val": val, "test": test}
    fingerprints = {name: part.fingerprint() for name, part in parts.items() if part is not None}
    if checkpoint is not None:
        _check_fingerprints(checkpoint, fingerprints, folder)
        load_weights(model, checkpoint.with_prefix("raw"))
        check_stem(model, checkpoint)
    elif config.initial:
        _initialize_from(model, find_checkpoint(config.initial), train.classes)
    preprocessing = default_preprocessing(model, config.image_size, config.crop)
    model = model.to(accelerator.device)
    _learn_upright(config, model, train, preprocessing, accelerator, reporter)
    images_per_step = config.batch_size * accelerator.num_processes
    learner = Learner.create(model, config, min(images_per_step, len(train)))
    feed = _make_feed(config, train, val, preprocessing, model, accelerator, reporter)
    forward, optimizer = accelerator.prepare(model, learner.optimizer)
    keep_process_group_alive(forward)
    if accelerator.is_main_process:
        folder.write_settings(config)
        if checkpoint is None:
            folder.remove_unreadable_list()
    return Setup(
        config,
        accelerator,
        train,
        val,
        len(test) if test is not None else 0,
        preprocessing,
        learner,
        torch.compile(forward) if config.compile else forward,  # pyright: ignore[reportArgumentType]
        optimizer,
        images_per_step,
        feed,
        reporter,
        fingerprints,
        stem_digest(model),
    )


def _choose_frame(
    config: TrainConfig, train: ImageDataset, accelerator: "Accelerator", reporter: Reporter
) -> Frame | None:
    """The frame that does best on training images, or that of the checkpoint with the initial weights."""
    if config.initial:
        return load_checkpoint(find_checkpoint(config.initial)).header.model_options.get("frame")

    def build(frame: Frame) -> torch.nn.Module:
        options = _training_options(replace(config, frame=frame), None)
        return build_classifier(config.model, options, train.classes).to(accelerator.device)

    with preserve_generators():
        preprocessing = default_preprocessing(build("none"), config.image_size, config.crop)
        choice = choose_frame(
            build, train, preprocessing, config.augment, config.seed, _workers(config, accelerator), reporter.track
        )
    reporter.note(str(choice))
    # Every process has compared them on the same images; other processors may round differently.
    chosen = torch.tensor(FRAMES.index(choice.best), device=accelerator.device)
    return FRAMES[int(require("accelerate.utils", "train").broadcast(chosen))]


def _training_options(config: TrainConfig, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """The options of the model, without a search for weights that a checkpoint replaces anyway. A frozen stem is never
    trained, so that random weights would be a mistake: they are used only if they were asked for."""
    options = config.network_options
    if checkpoint is not None or config.initial:
        return without_initial_weights(config.model, options)
    is_default = is_spectral(config.model) and options.get("stem_weights", "auto") == "auto"
    return {**options, "stem_weights": "required"} if is_default else options


def _learn_upright(
    config: TrainConfig,
    model: torch.nn.Module,
    train: ImageDataset,
    preprocessing: Preprocessing,
    accelerator: "Accelerator",
    reporter: Reporter,
) -> None:
    """Fit the score of the frame upright, unless the model has another frame or a checkpoint contained the score."""
    tokenizer = getattr(model, "tokenizer", None)
    if not isinstance(tokenizer, SpectralTokenizer) or tokenizer.upright is None or tokenizer.upright.is_fitted:
        return
    share = fit_upright(tokenizer, train, preprocessing, config.seed, _workers(config, accelerator), reporter.track)
    # Every process has fitted it on the same images; other processors may round differently.
    require("accelerate.utils", "train").broadcast(tokenizer.upright.weight.data)
    reporter.note(f"learned what is up: {share:.0%} of held-out training images are put upright within 10°")


def _workers(config: TrainConfig, accelerator: "Accelerator") -> int:
    return default_workers(accelerator.num_processes) if config.workers is None else config.workers


def _make_feed(
    config: TrainConfig,
    train: ImageDataset,
    val: ImageDataset,
    preprocessing: Preprocessing,
    model: torch.nn.Module,
    accelerator: "Accelerator",
    reporter: Reporter,
) -> Feed:
    rank, world_size = accelerator.process_index, accelerator.num_processes
    workers = _workers(config, accelerator)
    pixels = PixelFeed(config, train, val, preprocessing, accelerator.device, workers)
    if not config.cache:
        return pixels
    return make_cached_feed(config, model, pixels, reporter, rank, world_size, accelerator.wait_for_everyone)


def _make_accelerator(config: TrainConfig, folder: RunFolder) -> "Accelerator":
    accelerate = require("accelerate", "train")
    tracker = _find_tracker(config.tracker)
    accelerator = accelerate.Accelerator(
        cpu=config.device == "cpu",
        mixed_precision=config.precision,
        gradient_accumulation_steps=config.accumulate,
        log_with=tracker,
        project_dir=str(folder.logs),
    )
    if tracker:
        accelerator.init_trackers("spectral_vmamba")
    return accelerator


def _find_tracker(name: str) -> str | None:
    if name == "auto":
        return "tensorboard" if importlib.util.find_spec("tensorboard") else None
    return None if name == "none" else name


def _check_fingerprints(checkpoint: Checkpoint, fingerprints: dict[str, str], folder: RunFolder) -> None:
    if checkpoint.header.fingerprints != fingerprints:
        raise ValueError(
            f"the images differ from those that the run in {folder.path} was started with (names, sizes, labels or "
            "classes); restore them to resume, or start a new run"
        )


def _initialize_from(model: torch.nn.Module, path: Path, classes: tuple[str, ...]) -> None:
    """Load the weights of another run. The classifier is skipped if the classes differ; everything else must match."""
    checkpoint = load_checkpoint(path)
    weights = checkpoint.weights("best")
    if checkpoint.header.classes != classes:
        weights = {name: tensor for name, tensor in weights.items() if not name.startswith("head")}
    expected = {name: tensor.shape for name, tensor in model.state_dict().items() if not name.startswith("head")}
    given = {name: tensor.shape for name, tensor in weights.items() if not name.startswith("head")}
    if expected != given:
        differing = [name for name in {**expected, **given} if expected.get(name) != given.get(name)]
        count = plural(len(differing), "tensor")
        problem = f"{count} missing, unexpected or of another shape, for example {differing[0][:100]!r}"
        raise ValueError(f"{path} does not match the model {type(model).__name__}: {problem}")
    model.load_state_dict(weights, strict=False)
    check_stem(model, checkpoint)
