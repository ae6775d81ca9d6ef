"""One step of training: the loss of a batch, its gradient, an update of the weights and of their average."""

import math
from collections.abc import Sequence

import torch
from timm.data.mixup import Mixup
from timm.loss.cross_entropy import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from torch import Tensor

from spectral_vmamba.data.loader import Batch
from spectral_vmamba.data.seeding import STEP, reseed, seed_of
from spectral_vmamba.features import TokenBatch
from spectral_vmamba.training.setup import Setup
from spectral_vmamba.training.train_config import TrainConfig


class TrainingError(ArithmeticError):
    """The loss or the gradient is no longer a number."""


class Step:
    """All that it draws at random is a function of the seed, the step's number, the part and the process."""

    def __init__(self, config: TrainConfig, setup: Setup):
        self.config, self.setup = config, setup
        self.accelerator, self.learner = setup.accelerator, setup.learner
        augment = config.augment
        self.erase = augment.eraser(str(setup.accelerator.device))
        self.mixup = None
        self.loss: torch.nn.Module = LabelSmoothingCrossEntropy(augment.smoothing)
        if augment.mixup or augment.cutmix:
            classes = len(setup.train.classes)
            self.mixup = Mixup(augment.mixup, augment.cutmix, label_smoothing=augment.smoothing, num_classes=classes)
            self.loss = SoftTargetCrossEntropy()

    def take(self, step: int, parts: Sequence[Batch | TokenBatch]) -> float:
        """Steps are counted from 0. The mean loss of the parts, which make one update together."""
        total = 0.0
        for part, batch in enumerate(parts):
            self._reseed(step, part)
            with self.accelerator.accumulate(self.setup.forward):
                loss = self._loss_of(batch)
                self._check(loss, "the loss", step, batch)
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self._update(step, batch)
            total += float(loss.detach())
        if self.learner.ema is not None:
            self.learner.ema.update(self.learner.model, step=step + 1)
        return total / len(parts)

    def _loss_of(self, batch: Batch | TokenBatch) -> Tensor:
        labels = batch.labels.to(self.accelerator.device, non_blocking=True)
        views = self.erase(self.setup.feed.inputs(batch))
        if self.mixup is not None and len(views) > 1:
            even = len(views) // 2 * 2  # it mixes a batch with itself backwards, two halves of a size
            views, labels = self.mixup(views[:even], labels[:even])
        with self.accelerator.autocast():
            logits = self.setup.forward(views)
        return self.loss(logits.float(), labels)

    def _update(self, step: int, batch: Batch | TokenBatch) -> None:
        limit = self.config.optimizer.clip or math.inf
        norm = self.accelerator.clip_grad_norm_(self.learner.model.parameters(), limit)
        if norm is not None and self.config.precision != "fp16":  # whose scaler skips such steps
            self._check(torch.as_tensor(norm), "the gradient", step, batch)
        self.setup.optimizer.step()
        self.setup.optimizer.zero_grad()

    def _reseed(self, step: int, part: int) -> None:
        key = (STEP, self.config.seed, step, part, self.accelerator.process_index)
        reseed(*key)
        if self.accelerator.device.type == "cuda":
            torch.cuda.manual_seed(seed_of(*key))

    def _check(self, value: Tensor, what: str, step: int, batch: Batch | TokenBatch) -> None:
        if torch.isfinite(value):
            return
        names = ", ".join(self.setup.train.names[i] for i in batch.images)
        raise TrainingError(f"{what} is not a finite number at step {step + 1}. The batch: {names}")
