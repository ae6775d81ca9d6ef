"""Classification: images with one label each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from timm.data.mixup import Mixup
from timm.loss.cross_entropy import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from torch import Tensor, nn

from spectral_vmamba.data.dataset import ImageDataset
from spectral_vmamba.data.loader import Batch
from spectral_vmamba.data.order import ViewIndex
from spectral_vmamba.data.seeding import MODEL, preserve_generators, reseed
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.inference.checkpoint import (
    Checkpoint,
    check_classes,
    find_checkpoint,
    load_checkpoint,
)
from spectral_vmamba.inference.logits import compute_logits
from spectral_vmamba.inference.model_options import check_model, storable_options, without_initial_weights
from spectral_vmamba.inference.network import build_classifier, check_stem, default_preprocessing, stem_digest
from spectral_vmamba.metrics.classification import top_k_accuracy
from spectral_vmamba.models.invariant import InvariantModel
from spectral_vmamba.models.registry import is_spectral
from spectral_vmamba.models.tokens import Inputs
from spectral_vmamba.ops.frames import FRAMES, Frame
from spectral_vmamba.training.distillation import Teacher, distance
from spectral_vmamba.training.feeds import Feed, PixelFeed, make_cached_feed
from spectral_vmamba.training.frame_choice import choose_frame
from spectral_vmamba.training.setup import Surroundings
from spectral_vmamba.training.task import Forward, Share, Validation
from spectral_vmamba.training.train_config import TrainConfig
from spectral_vmamba.training.upright_fit import learn_upright
from spectral_vmamba.utils.extras import require
from spectral_vmamba.utils.wording import plural


def disagreement(logits: Float[Tensor, "b classes"]) -> Float[Tensor, ""]:
    """The symmetric Kullback-Leibler divergence between the predictions for two views, mean over images.

    The second half of the batch has the second view of the images of the first half.
    """
    first, second = logits.log_softmax(1).chunk(2)
    # KL(p, q) + KL(q, p) = Σ (p − q) (log p − log q)
    return ((first.exp() - second.exp()) * (first - second)).sum(1).mean() / 2


class LabelsLoss:
    """Cross-entropy with the labels, smoothed and mixed as the settings say, the distance to the predictions of a
    teacher, and the disagreement of two views."""

    def __init__(
        self,
        config: TrainConfig,
        classes: int,
        device: torch.device,
        preprocessing: Preprocessing,
        teacher: Teacher | None = None,
    ):
        augment = config.augment
        self.config, self.preprocessing, self.teacher = config, preprocessing, teacher
        self.consistency = config.consistency
        self.erase = augment.eraser(str(device))
        self.mixup = None
        self.criterion: nn.Module = LabelSmoothingCrossEntropy(augment.smoothing)
        if augment.mixup or augment.cutmix:
            self.mixup = Mixup(augment.mixup, augment.cutmix, label_smoothing=augment.smoothing, num_classes=classes)
            self.criterion = SoftTargetCrossEntropy()

    def __call__(self, forward: Forward, inputs: Inputs, labels: Tensor) -> Tensor:
        inputs = self.erase(inputs)  # pyright: ignore[reportArgumentType]
        if self.mixup is not None and len(labels) > 1:
            even = len(labels) // 2 * 2  # mixup pairs the batch with itself in reverse
            inputs, labels = self.mixup(inputs[:even], labels[:even])
        logits = forward(inputs)
        loss = self.criterion(logits, labels)
        if self.teacher is not None:
            expected = self.teacher.logits(inputs, self.preprocessing)  # pyright: ignore[reportArgumentType]
            share = self.config.teacher_share
            loss = (1 - share) * loss + share * distance(logits, expected, self.config.teacher_temperature)
        return loss + self.consistency * disagreement(logits) if self.consistency else loss


@dataclass(frozen=True)
class ClassificationTask:
    """`config` has the frame that was chosen."""

    config: TrainConfig
    model: nn.Module
    train: ImageDataset
    val: ImageDataset
    test: ImageDataset | None
    preprocessing: Preprocessing
    feed: Feed
    labels_loss: "LabelsLoss"
    device: torch.device
    fingerprints: dict[str, str]
    stem_sha256: str | None

    @classmethod
    def prepare(cls, config: TrainConfig, surroundings: Surroundings) -> "ClassificationTask":
        accelerator, _, checkpoint, _ = surroundings
        train, val, test = config.split.read()
        if len(set(train.labels.tolist())) < 2:
            raise ValueError(f"expected images of at least two classes in {config.data}, got {train.classes}")
        check_classes(train.classes)
        if config.initial and checkpoint is None:
            config = _with_pose_of_initial(config, surroundings)
        if config.frame == "auto":
            config = _with_best_frame(config, train, surroundings)
        with preserve_generators():
            reseed(MODEL, config.seed)
            options = training_options(config, checkpoint)
            model = build_classifier(config.model, options, train.classes, config.drop_path)
        check_model(config.model, storable_options(config.network_options))  # `load` would not accept other ones
        teacher = Teacher.load(config.teacher, train.classes, accelerator.device) if config.teacher else None
        fingerprints = surroundings.fingerprints(train=train, val=val, test=test, teacher=teacher)
        if not surroundings.restore(model) and config.initial:
            _initialize_from(model, find_checkpoint(config.initial), train.classes)
        preprocessing = default_preprocessing(model, config.image_size, config.crop)
        preprocessing = replace(preprocessing, borders=config.borders)
        model = model.to(accelerator.device)
        learn_upright(getattr(model, "tokenizer", None), train, preprocessing, config, surroundings)
        feed = _make_feed(config, train, val, preprocessing, model, surroundings)
        if teacher is not None:
            surroundings.reporter.note(str(teacher))
        loss = LabelsLoss(config, len(train.classes), accelerator.device, preprocessing, teacher)
        digest = stem_digest(model)
        return cls(config, model, train, val, test, preprocessing, feed, loss, accelerator.device, fingerprints, digest)

    @property
    def test_images(self) -> int:
        return 0 if self.test is None else len(self.test)

    def title(self) -> str:
        trainable = sum(part.numel() for part in self.model.parameters() if part.requires_grad)
        size, digest = self.preprocessing.size, self.stem_sha256
        stem = f", frozen stem with SHA-256 {digest[:12]}…" if digest else ""
        held_out = f", {plural(self.test_images, 'test image')} held out" if self.test_images else ""
        return (
            f"{self.config.model} ({trainable:,} trainable parameters{stem}) on {self.config.data}: "
            f"{plural(len(self.train), 'training image')} of {len(self.train.classes)} classes, "
            f"{plural(len(self.val), 'validation image')}{held_out}, {size} × {size} pixels"
        )

    def train_batches(self, micro_batches: Iterable[list[ViewIndex]]) -> Iterator[Batch]:
        return self.feed.train_batches(micro_batches)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        labels = batch.labels.to(self.device, non_blocking=True)
        return self.labels_loss(forward, self.feed.prepare(batch), labels)

    def validate(self, model: nn.Module, share: Share) -> Validation:
        """Accuracy and loss on the validation images."""
        batches = self.feed.val_batches(self.config.batch_size, share.rank, share.world_size)
        outputs = compute_logits(model, self.val, batches, self.feed.prepare, self.device, share.add_up)
        loss = float(F.cross_entropy(outputs.logits, outputs.labels))
        return Validation(top_k_accuracy(outputs.logits, outputs.labels, 1), loss, outputs.unreadable)

    def header_entries(self) -> dict[str, Any]:
        return {
            "model": self.config.model,
            "model_options": storable_options(self.config.network_options),
            "classes": self.train.classes,
            "preprocessing": self.preprocessing,
            "split": self.config.split,
            "stem_sha256": self.stem_sha256,
            "fingerprints": self.fingerprints,
        }


def _with_pose_of_initial(config: TrainConfig, surroundings: Surroundings) -> TrainConfig:
    """The settings with the frame and turns of the checkpoint that the weights come from, where none are given."""
    assert config.initial
    options = load_checkpoint(find_checkpoint(config.initial)).header.model_options
    found: dict[str, Any] = {}
    if config.frame in (None, "auto") and "frame" not in config.model_options and "frame" in options:
        found["frame"] = options["frame"]
    if config.turns is None and "turns" not in config.model_options and isinstance(options.get("turns"), int):
        found["turns"] = options["turns"]
    if found:
        described = ", ".join(f"{name} {value}" for name, value in found.items())
        surroundings.reporter.note(f"{described}, as in {config.initial}")
    frame = found.get("frame", None if config.frame == "auto" else config.frame)
    return replace(config, **{**found, "frame": frame})


def _with_best_frame(config: TrainConfig, train: ImageDataset, surroundings: Surroundings) -> TrainConfig:
    """The settings with the frame that does best on training images."""
    accelerator, reporter = surroundings.accelerator, surroundings.reporter

    def with_frame(frame: Frame) -> TrainConfig:
        # Upright images are seen once: turned copies would hide what is up.
        turns = 1 if frame == "upright" and config.turns is None else config.turns
        return replace(config, frame=frame, turns=turns)

    def build(frame: Frame) -> nn.Module:
        options = training_options(with_frame(frame))
        return build_classifier(config.model, options, train.classes).to(accelerator.device)

    with preserve_generators():
        preprocessing = default_preprocessing(build("none"), config.image_size, config.crop)
        choice = choose_frame(
            build, train, preprocessing, config.augment, config.seed, surroundings.workers(config), reporter.track
        )
    reporter.note(str(choice))
    # Every process has compared them on the same images; other processors may round differently.
    chosen = torch.tensor(FRAMES.index(choice.best), device=accelerator.device)
    return with_frame(FRAMES[int(require("accelerate.utils", "train").broadcast(chosen))])


def training_options(config: TrainConfig, checkpoint: Checkpoint | None = None) -> dict[str, Any]:
    """The options of the model, without a search for weights that a checkpoint replaces anyway. A frozen stem is never
    trained, so that random weights would be a mistake: they are used only if they were asked for."""
    options = config.network_options
    if checkpoint is not None or config.initial:
        return without_initial_weights(config.model, options)
    is_default = is_spectral(config.model) and options.get("stem_weights", "auto") == "auto"
    return {**options, "stem_weights": "required"} if is_default else options


def _make_feed(
    config: TrainConfig,
    train: ImageDataset,
    val: ImageDataset,
    preprocessing: Preprocessing,
    model: torch.nn.Module,
    surroundings: Surroundings,
) -> Feed:
    accelerator, reporter = surroundings.accelerator, surroundings.reporter
    rank, world_size = accelerator.process_index, accelerator.num_processes
    pixels = PixelFeed(config, train, val, preprocessing, accelerator.device, surroundings.workers(config))
    if not config.cache:
        return pixels
    return make_cached_feed(config, model, pixels, reporter, rank, world_size, accelerator.wait_for_everyone)


def _initialize_from(model: torch.nn.Module, path: Path, classes: tuple[str, ...]) -> None:
    """Load the weights of another run. The classifier is skipped if the classes differ; everything else must match."""
    checkpoint = load_checkpoint(path)
    weights = checkpoint.weights("best")
    if checkpoint.header.classes != classes:
        head = _classifier_prefixes(model)
        weights = {name: tensor for name, tensor in weights.items() if not name.startswith(head)}
    # The score of the frame upright is fitted later, unless the checkpoint has one.
    left_out = (*_classifier_prefixes(model), "tokenizer.upright.")
    expected = {name: tensor.shape for name, tensor in model.state_dict().items() if not name.startswith(left_out)}
    given = {name: tensor.shape for name, tensor in weights.items() if not name.startswith(left_out)}
    if expected != given:
        differing = [name for name in {**expected, **given} if expected.get(name) != given.get(name)]
        count = plural(len(differing), "tensor")
        problem = f"{count} missing, unexpected or of another shape, for example {differing[0][:100]!r}"
        raise ValueError(f"{path} does not match the model {type(model).__name__}: {problem}")
    model.load_state_dict(weights, strict=False)
    check_stem(model, checkpoint)


def _classifier_prefixes(model: nn.Module) -> tuple[str, ...]:
    """The beginnings of the names of the classifier's tensors."""
    names: Any = getattr(model, "pretrained_cfg", {}).get("classifier") or "head"
    names = (names,) if isinstance(names, str) else tuple(names)
    prefix = "model." if isinstance(model, InvariantModel) else ""
    return tuple(f"{prefix}{name}." for name in names)
