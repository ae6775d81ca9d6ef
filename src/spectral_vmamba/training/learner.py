"""The weights, their moving average and the optimizer, with conversion to and from checkpoint tensors."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from timm.optim._optim_factory import create_optimizer_v2
from timm.scheduler.cosine_lr import CosineLRScheduler
from timm.scheduler.poly_lr import PolyLRScheduler
from timm.utils.model_ema import ModelEmaV3
from torch import Tensor, nn

from spectral_vmamba.inference.checkpoint import Checkpoint, load_weights
from spectral_vmamba.training.run_config import OptimizerConfig, RunConfig

LR_BATCH_SIZE = 512  # images per step that the learning rates of a config refer to
_FUSED_ON_CPU = ("adam", "adamw")


class TrainableEma(ModelEmaV3):
    """timm's moving average, except that frozen tensors are not averaged, and that tensors are looked up once."""

    def __init__(self, model: nn.Module, config: RunConfig):
        super().__init__(model, decay=config.ema, use_warmup=config.ema_warmup)
        self._averages, self._current = list(_trainable(self.module, model)), list(_trainable(model, model))

    def apply_update_(self, model: nn.Module, decay: float) -> None:
        pairs = list(zip(self._averages, self._current, strict=True))
        floating = [pair for pair in pairs if pair[0].is_floating_point()]
        averages, current = [average for average, _ in floating], [value for _, value in floating]
        torch._foreach_lerp_(averages, current, weight=1 - decay)  # pyright: ignore[reportPrivateImportUsage]
        for average, value in pairs:
            if not average.is_floating_point():
                average.copy_(value)


def _trainable(model: nn.Module, reference: nn.Module) -> Iterator[Tensor]:
    """Parameters and buffers of the modules that are not frozen in `reference`."""
    for module, counterpart in zip(model.modules(), reference.modules(), strict=True):
        parameters = list(counterpart.parameters())
        if not parameters or any(parameter.requires_grad for parameter in parameters):
            yield from module.parameters(recurse=False)
            yield from module.buffers(recurse=False)


@dataclass
class Learner:
    model: nn.Module
    ema: TrainableEma | None
    optimizer: torch.optim.Optimizer

    @classmethod
    def create(cls, model: nn.Module, config: RunConfig, images_per_step: int) -> "Learner":
        ema = TrainableEma(model, config) if config.ema else None
        return cls(model, ema, _make_optimizer(model, config.optimizer, images_per_step / LR_BATCH_SIZE))

    def weight_tensors(self) -> dict[str, Tensor]:
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
        load_weights(self.model, checkpoint.with_prefix("raw"))
        if self.ema is not None:
            load_weights(self.ema.module, checkpoint.with_prefix("ema"))
        parameters = dict(self.model.named_parameters())
        for name, tensor in checkpoint.with_prefix("optimizer").items():
            parameter_name, key = name.split("/")
            parameter = parameters[parameter_name]
            self.optimizer.state[parameter][key] = tensor if key == "step" else tensor.to(parameter.device)


def _make_optimizer(model: nn.Module, config: OptimizerConfig, scale: float) -> torch.optim.Optimizer:
    on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
    fused: dict[str, Any] = {"fused": True} if on_cpu and config.name in _FUSED_ON_CPU else {}
    return create_optimizer_v2(
        model, opt=config.name, lr=config.lr * scale, weight_decay=config.weight_decay, betas=config.betas, **fused
    )


def make_schedule(
    optimizer: torch.optim.Optimizer, config: OptimizerConfig, scale: float, steps_per_epoch: int, steps: int
) -> Any:
    """Warm-up and decay; `.step_update(step)` sets the learning rate of a step, independently of previous calls."""
    warmup = config.warmup_steps or round(config.warmup_epochs * steps_per_epoch)
    warmup = min(warmup, max(steps - 1, 0))
    keywords: dict[str, Any] = {
        "t_initial": max(steps - warmup, 2),
        "lr_min": config.min_lr * scale,
        "warmup_t": warmup,
        "warmup_lr_init": config.warmup_lr * scale,
        "warmup_prefix": True,
        "t_in_epochs": False,
    }
    if config.schedule == "linear":
        return PolyLRScheduler(optimizer, power=1.0, **keywords)
    return CosineLRScheduler(optimizer, **keywords)
