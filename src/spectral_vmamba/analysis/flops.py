"""Parameters and floating point operations of a model, counted on shapes alone."""

from dataclasses import dataclass
from math import prod

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from spectral_vmamba.models import SpectralVMamba, create_model


@dataclass(frozen=True)
class ModelCost:
    """`gflops` counts every pass of the stem that runs; `gflops_stem_once` is how the paper counts. Both in the field's
    unit: multiply-adds of convolutions and products, 5 per normalised element, 9·l·d·n + l·d per scanned path."""

    name: str
    input_size: tuple[int, int]
    trainable_parameters: int
    frozen_parameters: int
    gflops: float
    gflops_stem_once: float


def measure_cost(name: str, size: int | tuple[int, int] | None = None, num_classes: int = 100, **kwargs) -> ModelCost:
    """Build the model without memory for its weights and count one image."""
    if name.startswith("spectral_vmamba"):
        kwargs.setdefault("stem_weights", None)
    with torch.device("meta"):
        model = create_model(name, num_classes=num_classes, **kwargs).eval()
    channels, *native = model.pretrained_cfg["input_size"]
    height, width = native if size is None else (size, size) if isinstance(size, int) else size
    with FlopCounterMode(display=False, custom_mapping=_LAYER_NORM) as counter, torch.no_grad():
        model(torch.empty(1, channels, height, width, device="meta"))
    total, repeated = counter.get_total_flops(), 0
    if isinstance(model, SpectralVMamba):
        stem = sum(counter.get_flop_counts()["SpectralVMamba.embedding.rfn.stem"].values())
        repeated = stem * (model.embedding.rfn.passes - 1) // model.embedding.rfn.passes
    return ModelCost(
        name,
        (height, width),
        _count(model, trainable=True),
        _count(model, trainable=False),
        total / 2e9,
        (total - repeated) / 2e9,
    )


def _count(model: nn.Module, trainable: bool) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad is trainable)


def _layer_norm_flops(shape, *_, **__) -> int:
    return 2 * 5 * prod(shape)


_LAYER_NORM = {torch.ops.aten.native_layer_norm: _layer_norm_flops}
