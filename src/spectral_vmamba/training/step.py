"""One training step: loss, gradient, and update of the weights and of their moving average."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from timm.data.mixup import Mixup
from timm.loss.cross_entropy import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from torch import Tensor

from spectral_vmamba.data.loader import Batch
from spectral_vmamba.data.seeding import STEP, derive_seed, reseed
from spectral_vmamba.training.setup import Setup
from spectral_vmamba.training.train_config import TrainConfig


class TrainingError(ArithmeticError):
    """The loss or the gradient is not finite."""


def disagreement(logits: Float[Tensor, "b classes"]) -> Float[Tensor, ""]:
    """The symmetric Kullback-Leibler divergence between the predictions for two views, mean over images.

    The second half of the batch has the second view of the images of the first half.
    """
    first, second = logits.log_softmax(1).chunk(2)
    # KL(p, q) + KL(q, p) = Σ (p − q) (log p − log q)
    return ((first.exp() - second.exp()) * (first - second)).sum(1).mean() / 2


class TrainingStep:
    """All random draws are a function of the seed, the step, the micro-batch and the process."""

    def __init__(self, config: TrainConfig, setup: Setup):
        self.config, self.setup = config, setup
        self.accelerator, self.learner = setup.accelerator, setup.learner
        augment = config.augment
        self.erase = augment.eraser(str(setup.accelerator.device))
        self.mixup = None
        self.criterion: torch.nn.Module = LabelSmoothingCrossEntropy(augment.smoothing)
        if augment.mixup or augment.cutmix:
            classes = len(setup.train.classes)
            self.mixup = Mixup(augment.mixup, augment.cutmix, label_smoothing=augment.smoothing, num_classes=classes)
            self.criterion = SoftTargetCrossEntropy()

    def __call__(self, step: int, micro_batches: Sequence[Batch]) -> float:
        """Make one update from the micro-batches of a step, counted from 0; return their mean loss."""
        total = 0.0
        for number, batch in enumerate(micro_batches):
            self._reseed(step, number)
            with self.accelerator.accumulate(self.setup.forward):
                loss = self._loss(batch)
                self._check_finite(loss, "the loss", step, batch)
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self._update(step, batch)
            total += float(loss.detach())
        if self.learner.ema is not None:
            self.learner.ema.update(self.learner.model, step=step + 1)
        return total / len(micro_batches)

    def _loss(self, batch: Batch) -> Tensor:
        labels = batch.labels.to(self.accelerator.device, non_blocking=True)
        inputs: Any = self.erase(self.setup.feed.prepare(batch))  # pyright: ignore[reportArgumentType]
        if self.mixup is not None and len(batch) > 1:
            even = len(batch) // 2 * 2  # mixup pairs the batch with itself in reverse
            inputs, labels = self.mixup(inputs[:even], labels[:even])
        with self.accelerator.autocast():
            logits = self.setup.forward(inputs).float()
        loss = self.criterion(logits, labels)
        return loss + self.config.consistency * disagreement(logits) if self.config.consistency else loss

    def _update(self, step: int, batch: Batch) -> None:
        limit = self.config.optimizer.clip or math.inf
        norm = self.accelerator.clip_grad_norm_(self.learner.model.parameters(), limit)
        if norm is not None and self.config.precision != "fp16":  # the gradient scaler skips such steps itself
            self._check_finite(torch.as_tensor(norm), "the gradient", step, batch)
        self.setup.optimizer.step()
        self.setup.optimizer.zero_grad()

    def _reseed(self, step: int, micro_batch: int) -> None:
        key = (STEP, self.config.seed, step, micro_batch, self.accelerator.process_index)
        reseed(*key)
        if self.accelerator.device.type == "cuda":
            torch.cuda.manual_seed(derive_seed(*key))

    def _check_finite(self, value: Tensor, what: str, step: int, batch: Batch) -> None:
        if torch.isfinite(value):
            return
        names = ", ".join(self.setup.train.names[i] for i in batch.indices)
        raise TrainingError(f"{what} is not finite at step {step + 1}. The batch: {names}")
