"""One training step: loss, gradient, and update of the weights and of their moving average."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from spectral_vmamba.data.seeding import STEP, derive_seed, reseed
from spectral_vmamba.training.setup import Setup
from spectral_vmamba.training.task import TaskBatch


class TrainingError(ArithmeticError):
    """The loss or the gradient is not finite."""


class TrainingStep:
    """All random draws are a function of the seed, the step, the micro-batch and the process."""

    def __init__(self, setup: Setup):
        self.config, self.setup = setup.task.config, setup
        self.accelerator, self.learner = setup.accelerator, setup.learner

    def __call__(self, step: int, micro_batches: Sequence[TaskBatch]) -> float:
        """Make one update from the micro-batches of a step, counted from 0; return their mean loss."""
        total = 0.0
        for number, batch in enumerate(micro_batches):
            self._reseed(step, number)
            with self.accelerator.accumulate(self.setup.forward):
                loss = self.setup.task.loss(self._forward, batch)
                self._check_finite(loss, "the loss", step, batch)
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self._update(step, batch)
            total += float(loss.detach())
        if self.learner.ema is not None:
            self.learner.ema.update(self.learner.model, step=step + 1)
        return total / len(micro_batches)

    def _forward(self, inputs: object) -> Tensor:
        with self.accelerator.autocast():
            return self.setup.forward(inputs).float()

    def _update(self, step: int, batch: TaskBatch) -> None:
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

    def _check_finite(self, value: Tensor, what: str, step: int, batch: TaskBatch) -> None:
        if torch.isfinite(value):
            return
        names = ", ".join(self.setup.task.train.names[i] for i in batch.indices)
        raise TrainingError(f"{what} is not finite at step {step + 1}. The batch: {names}")
