"""What changes while training: the weights, their average, the optimiser. As tensors for a checkpoint, and back."""

from dataclasses import dataclass
from typing import Any

import torch
from timm.optim._optim_factory import create_optimizer_v2
from timm.scheduler.cosine_lr import CosineLRScheduler
from timm.utils.model_ema import ModelEmaV3
from torch import Tensor, nn

from spectral_vmamba.engine.checkpoint import Checkpoint, CheckpointError
from spectral_vmamba.engine.config import OptimiserConfig, TrainConfig


@dataclass
class Learner:
    model: nn.Module
    ema: ModelEmaV3 | None
    optimiser: torch.optim.Optimizer

    @classmethod
    def of(cls, model: nn.Module, config: TrainConfig, pictures_per_step: int) -> "Learner":
        ema = ModelEmaV3(model, decay=config.ema, use_warmup=config.ema_warmup) if config.ema else None
        return cls(model, ema, _optimiser(model, config.optimiser, pictures_per_step / 512))

    def tensors(self) -> dict[str, Tensor]:
        tensors = {f"raw.{name}": tensor for name, tensor in self.model.state_dict().items()}
        if self.ema is not None:
            tensors |= {f"ema.{name}": tensor for name, tensor in self.ema.module.state_dict().items()}
        return tensors

    def optimiser_tensors(self) -> dict[str, Tensor]:
        return {
            f"optimiser.{name}/{key}": torch.as_tensor(value)
            for name, parameter in self.model.named_parameters()
            for key, value in self.optimiser.state.get(parameter, {}).items()
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        load_weights(self.model, checkpoint.part("raw"))
        if self.ema is not None:
            load_weights(self.ema.module, checkpoint.part("ema"))
        parameters = dict(self.model.named_parameters())
        for name, tensor in checkpoint.part("optimiser").items():
            parameter, key = name.split("/")
            kept = tensor if key == "step" else tensor.to(parameters[parameter].device)
            self.optimiser.state[parameters[parameter]][key] = kept


def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"the checkpoint does not fit the model: {error}") from error


def _optimiser(model: nn.Module, config: OptimiserConfig, scale: float) -> torch.optim.Optimizer:
    return create_optimizer_v2(
        model, opt=config.name, lr=config.lr * scale, weight_decay=config.weight_decay, betas=config.betas
    )


def cosine(
    optimiser: torch.optim.Optimizer, config: OptimiserConfig, scale: float, steps_per_epoch: int, steps: int
) -> Any:
    """Sets the learning rate of a step by `.step_update(step)`, whatever steps were before."""
    warmup = min(round(config.warmup_epochs * steps_per_epoch), max(steps - 1, 0))
    return CosineLRScheduler(
        optimiser,
        t_initial=max(steps - warmup, 2),
        lr_min=config.min_lr * scale,
        warmup_t=warmup,
        warmup_lr_init=config.warmup_lr * scale,
        warmup_prefix=True,
        t_in_epochs=False,
    )
