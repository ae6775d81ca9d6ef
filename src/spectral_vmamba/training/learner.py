"""What changes while training: the weights, their average, the optimizer. As tensors for a checkpoint, and back."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from timm.optim._optim_factory import create_optimizer_v2
from timm.scheduler.cosine_lr import CosineLRScheduler
from timm.utils.model_ema import ModelEmaV3
from torch import Tensor, nn

from spectral_vmamba.inference.checkpoint import Checkpoint, CheckpointError
from spectral_vmamba.training.train_config import OptimizerConfig, TrainConfig

_FUSED = ("adam", "adamw")  # by torch, on the CPU


class Average(ModelEmaV3):
    """The same as timm's, but what is frozen is not averaged with itself, and the tensors are looked up once."""

    def __init__(self, model: nn.Module, config: TrainConfig):
        super().__init__(model, decay=config.ema, use_warmup=config.ema_warmup)
        self._averaged, self._current = list(_changing(self.module, model)), list(_changing(model, model))

    def apply_update_(self, model: nn.Module, decay: float) -> None:
        pairs = list(zip(self._averaged, self._current, strict=True))
        real = [pair for pair in pairs if pair[0].is_floating_point()]
        averaged, current = [own for own, _ in real], [other for _, other in real]
        torch._foreach_lerp_(averaged, current, weight=1 - decay)  # pyright: ignore[reportPrivateImportUsage]
        for own, other in pairs:
            if not own.is_floating_point():
                own.copy_(other)


def _changing(model: nn.Module, like: nn.Module) -> Iterator[Tensor]:
    """Parameters and buffers of the modules that are not frozen in `like`."""
    for module, theirs in zip(model.modules(), like.modules(), strict=True):
        parameters = list(theirs.parameters())
        if not parameters or any(part.requires_grad for part in parameters):
            yield from module.parameters(recurse=False)
            yield from module.buffers(recurse=False)


@dataclass
class Learner:
    model: nn.Module
    ema: Average | None
    optimizer: torch.optim.Optimizer

    @classmethod
    def of(cls, model: nn.Module, config: TrainConfig, images_per_step: int) -> "Learner":
        ema = Average(model, config) if config.ema else None
        return cls(model, ema, _optimizer(model, config.optimizer, images_per_step / 512))

    def tensors(self) -> dict[str, Tensor]:
        tensors = {f"raw.{name}": tensor for name, tensor in self.model.state_dict().items()}
        if self.ema is not None:
            tensors |= {f"ema.{name}": tensor for name, tensor in self.ema.module.state_dict().items()}
        return tensors

    def optimizer_tensors(self) -> dict[str, Tensor]:
        return {
            f"optimizer.{name}/{key}": torch.as_tensor(value)
            for name, parameter in self.model.named_parameters()
            for key, value in self.optimizer.state.get(parameter, {}).items()
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        load_weights(self.model, checkpoint.part("raw"))
        if self.ema is not None:
            load_weights(self.ema.module, checkpoint.part("ema"))
        parameters = dict(self.model.named_parameters())
        for name, tensor in checkpoint.part("optimizer").items():
            parameter, key = name.split("/")
            kept = tensor if key == "step" else tensor.to(parameters[parameter].device)
            self.optimizer.state[parameters[parameter]][key] = kept


def load_weights(model: nn.Module, weights: dict[str, Tensor]) -> None:
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise CheckpointError(f"the checkpoint does not fit the model: {error}") from error


def _optimizer(model: nn.Module, config: OptimizerConfig, scale: float) -> torch.optim.Optimizer:
    on_cpu = all(part.device.type == "cpu" for part in model.parameters())
    faster: dict[str, Any] = {"fused": True} if on_cpu and config.name in _FUSED else {}
    return create_optimizer_v2(
        model, opt=config.name, lr=config.lr * scale, weight_decay=config.weight_decay, betas=config.betas, **faster
    )


def cosine(
    optimizer: torch.optim.Optimizer, config: OptimizerConfig, scale: float, steps_per_epoch: int, steps: int
) -> Any:
    """Sets the learning rate of a step by `.step_update(step)`, whatever steps were before."""
    warmup = min(round(config.warmup_epochs * steps_per_epoch), max(steps - 1, 0))
    return CosineLRScheduler(
        optimizer,
        t_initial=max(steps - warmup, 2),
        lr_min=config.min_lr * scale,
        warmup_t=warmup,
        warmup_lr_init=config.warmup_lr * scale,
        warmup_prefix=True,
        t_in_epochs=False,
    )
