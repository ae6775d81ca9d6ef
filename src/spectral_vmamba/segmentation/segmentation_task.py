"""Segmentation as a training task: images with a class for every pixel."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from spectral_vmamba.data.decode import normalize
from spectral_vmamba.data.order import ViewIndex
from spectral_vmamba.data.seeding import MODEL, preserve_generators, reseed
from spectral_vmamba.data.transforms import Preprocessing
from spectral_vmamba.data.unreadable import ReadError
from spectral_vmamba.inference.checkpoint import MaskHeader, check_classes
from spectral_vmamba.inference.model_options import check_model, storable_options, without_initial_weights
from spectral_vmamba.inference.network import stem_digest
from spectral_vmamba.models.registry import is_spectral
from spectral_vmamba.segmentation.class_list import CLASS_FILE
from spectral_vmamba.segmentation.initial_weights import load_initial_weights
from spectral_vmamba.segmentation.mask_loading import MaskedBatch, eval_pairs, train_pair_batches
from spectral_vmamba.segmentation.masked_dataset import MaskedDataset
from spectral_vmamba.segmentation.metrics import count_pixels, dice_loss, mask_scores
from spectral_vmamba.segmentation.model import SegmentationModel, build_segmenter
from spectral_vmamba.segmentation.readers import read_masked_split
from spectral_vmamba.segmentation.segment_config import SegmentConfig
from spectral_vmamba.segmentation.segmenter import Segmenter
from spectral_vmamba.training.setup import Surroundings
from spectral_vmamba.training.task import Forward, Share, Validation
from spectral_vmamba.training.upright_fit import learn_upright
from spectral_vmamba.utils.wording import plural

_MOST_MASKS = 300  # that are looked at before training


@dataclass(frozen=True)
class SegmentationTask:
    config: SegmentConfig
    model: SegmentationModel
    train: MaskedDataset
    val: MaskedDataset
    test: MaskedDataset | None
    preprocessing: Preprocessing
    class_weights: Float[Tensor, "classes"] | None
    device: torch.device
    workers: int
    fingerprints: dict[str, str]
    stem_sha256: str | None

    @classmethod
    def prepare(cls, config: SegmentConfig, surroundings: Surroundings) -> "SegmentationTask":
        checkpoint, device = surroundings.checkpoint, surroundings.accelerator.device
        train, val, test = read_masked_split(config.split)
        check_classes(train.classes)
        _check_batches(config, len(train))
        if checkpoint is None:
            _check_used_classes(train, surroundings.reporter.note)
        check_model(config.model, storable_options(config.model_options))  # `load` would not accept other ones
        with preserve_generators():
            reseed(MODEL, config.seed)
            model = _build(config, len(train.classes), has_weights=checkpoint is not None or bool(config.initial))
        fingerprints = surroundings.fingerprints(train=train, val=val, test=test)
        if not surroundings.restore(model) and config.initial:
            load_initial_weights(model, config.initial, train.classes)
        preprocessing = _preprocessing(config, model)
        model = model.to(device)
        learn_upright(model.tokenizer, train.images, preprocessing, config, surroundings)
        weights = _class_weights(config, train)
        return cls(
            config,
            model,
            train,
            val,
            test,
            preprocessing,
            None if weights is None else weights.to(device),
            device,
            surroundings.workers(config),
            fingerprints,
            stem_digest(model),
        )

    @property
    def test_images(self) -> int:
        return 0 if self.test is None else len(self.test)

    def title(self) -> str:
        trainable = sum(part.numel() for part in self.model.parameters() if part.requires_grad)
        held_out = f", {plural(self.test_images, 'test image')} held out" if self.test_images else ""
        return (
            f"{self.config.decoder} on {self.config.model} ({trainable:,} trainable parameters) on {self.config.data}: "
            f"{plural(len(self.train), 'training image')} of {len(self.train.classes)} classes, "
            f"{plural(len(self.val), 'validation image')}{held_out}, crops of {self.config.size} pixels"
        )

    def train_batches(self, micro_batches: Iterable[list[ViewIndex]]) -> Iterator[MaskedBatch]:
        transform = self.config.augment.train_transform(self.config.size, self.train.ignore_index)
        pin = self.device.type == "cuda"
        return train_pair_batches(self.train, transform, self.config.seed, micro_batches, self.workers, pin)

    def loss(self, forward: Forward, batch: MaskedBatch) -> Tensor:
        """0 where no pixel of the batch has a class."""
        labels = batch.masks.to(self.device, non_blocking=True).long()
        pixels = batch.inputs.to(self.device, non_blocking=True)
        scores = forward(normalize(pixels, self.preprocessing.mean, self.preprocessing.std))
        total = scores.sum() * 0.0
        if self.config.loss != "dice":
            total = total + self._cross_entropy(scores, labels)
        if self.config.loss != "cross_entropy":
            total = total + dice_loss(scores, labels, self.train.ignore_index)
        return total

    def _cross_entropy(self, scores: Tensor, labels: Tensor) -> Tensor:
        ignored = self.train.ignore_index
        losses = F.cross_entropy(scores, labels, self.class_weights, ignore_index=ignored, reduction="none")
        weights = (labels != ignored).float()
        if self.class_weights is not None:
            weights = weights * self.class_weights[torch.where(labels == ignored, 0, labels)]
        return losses.sum() / weights.sum().clamp(min=1e-6)

    def validate(self, model: nn.Module, share: Share) -> Validation:
        """Mean IoU and cross-entropy over the pixels of the validation images, each in its own size."""
        was_training = model.training
        segmenter = self.segmenter(model.eval())
        classes, ignored = len(self.train.classes), self.train.ignore_index
        counts = torch.zeros(classes, classes, dtype=torch.int64)
        loss, unreadable = torch.zeros(2, dtype=torch.float64), torch.zeros(len(self.val), dtype=torch.int64)
        errors: dict[int, ReadError] = {}
        for sample in eval_pairs(self.val, self.workers, share.rank, share.world_size):
            if isinstance(sample, ReadError):
                errors[sample.index] = sample
                unreadable[sample.index] = 1
                continue
            probabilities, labels = segmenter.probabilities(sample.pixels), sample.mask.long()
            counts += count_pixels(probabilities.argmax(0), labels, classes, ignored)
            known = labels != ignored
            chosen = probabilities.gather(0, torch.where(known, labels, 0)[None])[0][known]
            loss += torch.tensor([-chosen.clamp(min=1e-12).log().sum(dtype=torch.float64), len(chosen)])
        model.train(was_training)
        counts, loss, unreadable = (share.add_up(part.to(self.device)).cpu() for part in (counts, loss, unreadable))
        numbers: list[int] = unreadable.nonzero()[:, 0].tolist()
        missing = [errors.get(i) or ReadError(i, self.val.names[i], "see the other process") for i in numbers]
        if len(missing) == len(self.val):
            raise ValueError(f"no validation image can be used: {missing[0].explanation}")
        return Validation(mask_scores(counts).mean_iou, float(loss[0] / loss[1].clamp(min=1)), missing)

    def segmenter(self, model: nn.Module) -> Segmenter:
        """The network of this task, or its moving average, for use on images."""
        network: Any = model
        window = self.config.largest_window
        return Segmenter(
            self.config.model, network, self.train.classes, self.train.palette, self.preprocessing, window, self.device
        )

    def header_entries(self) -> dict[str, Any]:
        config, train = self.config, self.train
        return {
            "model": config.model,
            "model_options": storable_options(config.model_options),
            "classes": train.classes,
            "preprocessing": self.preprocessing,
            "split": config.split,
            "stem_sha256": self.stem_sha256,
            "fingerprints": self.fingerprints,
            "masks": MaskHeader(config.network, train.palette, train.ignore_index, config.largest_window),
        }


def _check_used_classes(train: MaskedDataset, note: Callable[[str], None]) -> None:
    """Raise a ValueError if one class has all labeled pixels, and note classes without any.

    Looks at no more than `_MOST_MASKS` masks, evenly spaced.
    """
    looked_at = np.unique(np.linspace(0, len(train) - 1, min(len(train), _MOST_MASKS)).round().astype(int))
    counts = _count_labels(train, looked_at.tolist())
    unused = [name for name, pixels in zip(train.classes, counts[: len(train.classes)], strict=True) if not pixels]
    ignored = counts[train.ignore_index] / max(counts.sum(), 1)
    where = f"in {plural(len(looked_at), 'training mask')}; {ignored:.0%} of the pixels are ignored"
    if len(unused) == len(train.classes) - 1:
        raise ValueError(
            f"no pixel of {', '.join(unused)} {where}. The value {train.ignore_index} stands for no class: for masks "
            f"of 0 and 255, list 'background 0 0 0' and 'object 255 255 255' in {CLASS_FILE}"
        )
    if 0 < len(unused) < len(train.classes):
        note(f"no pixel of {', '.join(unused)} {where}")


def _count_labels(dataset: MaskedDataset, indices: Iterable[int]) -> np.ndarray:
    """Pixels of each value, 0 to 255, in the masks that can be read; training reports the others when it meets them."""
    counts = np.zeros(256)
    for i in indices:
        try:
            counts += np.bincount(dataset.open(i)[1].ravel(), minlength=256)
        except ValueError:
            continue
    return counts


def _check_batches(config: SegmentConfig, images: int) -> None:
    """Raise a ValueError if a step would have fewer images than the decoder can normalize over."""
    smallest, found = config.network.smallest_batch, min(config.batch_size, images) // config.accumulate
    if found < smallest:
        raise ValueError(
            f"the decoder {config.decoder} needs at least {smallest} images in a step; got a batch size of "
            f"{config.batch_size}, {plural(images, 'training image')} and accumulate {config.accumulate}. The decoders "
            f"fpn and unet take single images"
        )


def _build(config: SegmentConfig, classes: int, has_weights: bool) -> SegmentationModel:
    options = dict(config.model_options)
    if has_weights:
        options = without_initial_weights(config.model, options)
    elif is_spectral(config.model):
        options = {"stem_weights": "required", **options}
    if config.drop_path is not None:
        options["drop_path_rate"] = config.drop_path
    return build_segmenter(config.model, options, config.network, classes, config.pretrained and not has_weights)


def _preprocessing(config: SegmentConfig, model: SegmentationModel) -> Preprocessing:
    defaults: Any = model.backbone.pretrained_cfg  # of its options: another stem may expect other values
    return Preprocessing(config.size, tuple(defaults["mean"]), tuple(defaults["std"]))


def _class_weights(config: SegmentConfig, train: MaskedDataset) -> Float[Tensor, "classes"] | None:
    if config.class_weights is None:
        return None
    if config.class_weights != "balanced":
        if len(config.class_weights) != len(train.classes):
            raise ValueError(
                f"expected a weight for each of the {len(train.classes)} classes, got {len(config.class_weights)}"
            )
        return torch.tensor(config.class_weights)
    pixels = _count_labels(train, range(len(train)))[: len(train.classes)]
    if not pixels.any():
        raise ValueError(f"expected pixels of a class in the masks of {config.data}; all of them are ignored")
    weights = np.where(pixels > 0, 1 / np.sqrt(np.maximum(pixels, 1)), 0.0)
    return torch.from_numpy(weights / weights[pixels > 0].mean()).float()
